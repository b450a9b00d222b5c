# Images for a registry: the same content as `./run images` makes for the test bed.
#   docker build --target worker   -t REGISTRY/turbine-worker:TAG .
#   docker build --target operator -t REGISTRY/turbine-operator:TAG .
FROM rust:1.95-bookworm AS builder
WORKDIR /src
ENV TURBINE_CACHE=/cache
COPY tests/bed/lib.sh tests/bed/packages.sh tests/bed/
RUN tests/bed/packages.sh build
COPY . .
RUN bash -c '. tests/bed/lib.sh && build_programs'
RUN tests/bed/images/root.sh $TURBINE_CACHE/target/release/turbine-worker /image/worker \
 && tests/bed/images/root.sh $TURBINE_CACHE/target/release/turbine-operator /image/operator

FROM scratch AS worker
COPY --from=builder /image/worker /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/turbine-worker"]

FROM scratch AS operator
COPY --from=builder /image/operator /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/turbine-operator"]
