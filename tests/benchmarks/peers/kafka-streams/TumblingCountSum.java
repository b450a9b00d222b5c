import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The benchmark's query in Kafka Streams: count and sum per record key in tumbling windows of one minute, one result per key
 * and window once it is closed, state in RocksDB, results as JSON.
 *
 * <p>Keys are the records' own. Event time and number are read with Jackson's streaming parser, which was faster here than
 * databind. State and intermediate values are 17 bytes each, not JSON.
 *
 * <p>java -cp "CLASSES:$LIBS/*" TumblingCountSum --bootstrap HOST:PORT --application ID --input TOPIC --output TOPIC
 * --guarantee at_least_once|exactly_once_v2 --commit-interval-ms N --grace-ms N --threads N --cache-bytes N --state-dir DIR
 * --emit suppress|close [--property NAME=VALUE]...
 *
 * <p>It runs until SIGTERM.
 */
public final class TumblingCountSum {
  private static final Duration WINDOW = Duration.ofMinutes(1);
  private static final JsonFactory JSON = new JsonFactory();

  /** What the query needs of a record; {@code set} is false where {@code bytes} is null or absent. */
  private record Row(long time, boolean set, long bytes) {}

  /** {@code set} is false until a row with a number was seen: the sum of none is null. */
  private record Totals(long count, boolean set, long sum) {
    private static final Totals NONE = new Totals(0, false, 0);

    private Totals plus(Row row) {
      return new Totals(count + 1, set || row.set, sum + row.bytes);
    }
  }

  private static final class RowSerde implements Serde<Row> {
    @Override
    public Serializer<Row> serializer() {
      throw new UnsupportedOperationException("rows are only read");
    }

    @Override
    public Deserializer<Row> deserializer() {
      return (topic, bytes) -> {
        try {
          return read(bytes);
        } catch (IOException error) {
          throw new UncheckedIOException(error);
        }
      };
    }

    private static Row read(byte[] json) throws IOException {
      long time = -1;
      long bytes = 0;
      boolean set = false;
      try (JsonParser parser = JSON.createParser(json)) {
        parser.nextToken();
        String name;
        while ((name = parser.nextFieldName()) != null) {
          JsonToken value = parser.nextToken();
          switch (name) {
            case "ts" -> time = parser.getLongValue();
            case "bytes" -> {
              if (value != JsonToken.VALUE_NULL) {
                bytes = parser.getLongValue();
                set = true;
              }
            }
            default -> parser.skipChildren();
          }
        }
      }
      return new Row(time, set, bytes);
    }
  }

  private static final class TotalsSerde implements Serde<Totals> {
    @Override
    public Serializer<Totals> serializer() {
      return (topic, totals) -> totals == null ? null : ByteBuffer.allocate(17)
          .putLong(totals.count)
          .putLong(totals.sum)
          .put((byte) (totals.set ? 1 : 0))
          .array();
    }

    @Override
    public Deserializer<Totals> deserializer() {
      return (topic, bytes) -> {
        if (bytes == null) return null;
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        long count = buffer.getLong();
        long sum = buffer.getLong();
        return new Totals(count, buffer.get() == 1, sum);
      };
    }
  }

  private static byte[] json(Windowed<String> key, Totals totals) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(160);
    try (JsonGenerator out = JSON.createGenerator(bytes)) {
      out.writeStartObject();
      out.writeStringField("tenant_id", key.key());
      out.writeNumberField("window_start_ms", key.window().start());
      out.writeNumberField("window_end_ms", key.window().end());
      out.writeNumberField("n", totals.count);
      if (totals.set) out.writeNumberField("bytes_sum", totals.sum);
      else out.writeNullField("bytes_sum");
      out.writeEndObject();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return bytes.toByteArray();
  }

  private static StreamsBuilder topology(Map<String, String> options) {
    Duration grace = Duration.ofMillis(Long.parseLong(options.get("grace-ms")));
    StreamsBuilder builder = new StreamsBuilder();
    TimeWindowedKStream<String, Row> windows = builder
        .stream(options.get("input"), Consumed.with(Serdes.String(), new RowSerde())
            .withTimestampExtractor((record, highest) -> ((Row) record.value()).time))
        .groupByKey(Grouped.with(Serdes.String(), new RowSerde()))
        .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, grace));
    Initializer<Totals> none = () -> Totals.NONE;
    Aggregator<String, Row, Totals> add = (key, row, totals) -> totals.plus(row);
    Materialized<String, Totals, WindowStore<Bytes, byte[]>> store =
        Materialized.<String, Totals, WindowStore<Bytes, byte[]>>as("minute")
            .withKeySerde(Serdes.String())
            .withValueSerde(new TotalsSerde());
    KTable<Windowed<String>, Totals> closed = switch (options.get("emit")) {
      case "suppress" -> windows.aggregate(none, add, store)
          .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("closed"));
      case "close" -> windows.emitStrategy(EmitStrategy.onWindowClose()).aggregate(none, add, store);
      default -> throw new IllegalArgumentException("--emit suppress|close");
    };
    closed.toStream()
        .map((key, totals) -> KeyValue.pair(key.key(), json(key, totals)))
        .to(options.get("output"), Produced.with(Serdes.String(), Serdes.ByteArray()));
    return builder;
  }

  private static Properties settings(Map<String, String> options) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, options.get("application"));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("bootstrap"));
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, options.get("guarantee"));
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, options.get("commit-interval-ms"));
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, options.get("threads"));
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, options.get("cache-bytes"));
    settings.put(StreamsConfig.STATE_DIR_CONFIG, options.get("state-dir"));
    settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
    // event times are fixed and may be long past; the broker must not spend time on deleting a changelog in the middle of a run
    settings.put(StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG, Duration.ofDays(3650).toMillis());
    // by default windows are looked at once a second, and only when a record comes: the last ones would never be closed
    settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
    options.forEach((name, value) -> {
      if (name.startsWith("property.")) settings.put(name.substring("property.".length()), value);
    });
    return settings;
  }

  private static Map<String, String> options(String[] arguments) {
    Map<String, String> options = new HashMap<>();
    for (int at = 0; at + 1 < arguments.length; at += 2) {
      String name = arguments[at].substring(2);
      String value = arguments[at + 1];
      if (name.equals("property")) {
        String[] parts = value.split("=", 2);
        options.put("property." + parts[0], parts[1]);
      } else {
        options.put(name, value);
      }
    }
    return options;
  }

  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> options = options(arguments);
    KafkaStreams streams = new KafkaStreams(topology(options).build(), settings(options));
    CountDownLatch end = new CountDownLatch(1);
    streams.setUncaughtExceptionHandler(error -> {
      error.printStackTrace();
      end.countDown();
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(60))));
    streams.start();
    end.await();
    System.exit(1);
  }
}
