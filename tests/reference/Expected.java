import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Utils;

/**
 * What tumbling windows over a topic must have given, computed from the documented rules alone, and compared with an
 * output topic. It shares nothing with the product: another language, Kafka's own consumer, big-number arithmetic, one
 * record at a time.
 *
 * <p>Rules. Partitions are independent, records are judged in offset order. A record's window starts at
 * floor(time / size) * size. It is late if the frontier (highest time so far, less the out-of-orderness) has reached the
 * window's end plus the allowed lateness. A window has a result once the frontier has reached that point. Of several
 * results for one window the last one counts (at least once).
 *
 * <p>java -cp "$LIBS/*" Expected.java --bootstrap HOST:PORT --input TOPIC --output TOPIC --size-ms N
 * [--lateness-ms N] [--out-of-orderness-ms N] [--time ts] --key COLUMN... --agg NAME=FUNCTION[:COLUMN]...
 * [--open-windows allowed] [--placed] [--wait-s N] [--print-expected] [--show-open]
 *
 * <p>With --output it waits until every window has its result or the time is over, then prints one JSON object with the
 * counts and the first differences; exit status 1 if there is any. `--open-windows allowed` also takes results of windows
 * that the data alone has not closed (an idle source closes by the clock), if they are right. `--placed` leaves out rows
 * whose first key column, as text, is not placed by murmur2 where the row lies, before any other rule sees them.
 * `--show-open` adds what the windows that are still open have come to: what the state must hold.
 */
public final class Expected {
  private static final ObjectMapper JSON = new ObjectMapper()
      .enable(DeserializationFeature.USE_BIG_INTEGER_FOR_INTS)
      .enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
      .disable(JsonParser.Feature.AUTO_CLOSE_SOURCE);
  private static final int SHOWN = 10;

  private record Aggregate(String name, String function, String column) {}

  /** One window of one key. Null keys are per partition, others belong to the one partition that holds the key. */
  private record Pane(List<String> key, long start, int nullPartition) {}

  private static final class Cell {
    long count;
    BigInteger integers = BigInteger.ZERO;
    double floats;
    boolean sawFloat;
    JsonNode min;
    JsonNode max;
  }

  private static final class State {
    final Map<String, Cell> cells = new HashMap<>();
    int partition;
    boolean closed;
    long rows;
  }

  private final Map<String, List<String>> options;
  private final List<Aggregate> aggregates = new ArrayList<>();
  private final List<String> keys;
  private final long size;
  private final long lateness;
  private final long outOfOrderness;
  private final String time;
  private final Map<Pane, State> panes = new LinkedHashMap<>();
  private long inputRows;
  private long lateRows;
  private final boolean placed;
  private long misplacedRows;

  private Expected(Map<String, List<String>> options) {
    this.options = options;
    keys = options.get("key");
    size = number("size-ms", null);
    lateness = number("lateness-ms", 0L);
    outOfOrderness = number("out-of-orderness-ms", 0L);
    time = text("time", "ts");
    placed = options.containsKey("placed");
    for (String each : options.get("agg")) {
      String[] nameAndRest = each.split("=", 2);
      String[] functionAndColumn = nameAndRest[1].split(":", 2);
      aggregates.add(new Aggregate(
          nameAndRest[0], functionAndColumn[0], functionAndColumn.length > 1 ? functionAndColumn[1] : null));
    }
  }

  private String text(String name, String fallback) {
    return options.containsKey(name) ? options.get(name).get(0) : fallback;
  }

  private long number(String name, Long fallback) {
    String value = text(name, fallback == null ? null : fallback.toString());
    if (value == null) throw new IllegalArgumentException("--" + name + " is missing");
    return Long.parseLong(value);
  }

  private KafkaConsumer<byte[], byte[]> consumer() {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", text("bootstrap", null));
    properties.put("isolation.level", "read_committed");
    properties.put("enable.auto.commit", "false");
    properties.put("auto.offset.reset", "none");
    properties.put("allow.auto.create.topics", "false");
    return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  private static List<TopicPartition> partitions(KafkaConsumer<?, ?> consumer, String topic) {
    return consumer.partitionsFor(topic).stream()
        .map(each -> new TopicPartition(topic, each.partition()))
        .collect(Collectors.toList());
  }

  private interface Sink {
    void take(ConsumerRecord<byte[], byte[]> record) throws Exception;
  }

  /** Reads on to the ends as they are now. */
  private static void readToEnd(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> of, Sink sink)
      throws Exception {
    Map<TopicPartition, Long> ends = consumer.endOffsets(of);
    while (of.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) sink.take(record);
    }
  }

  private void readInput(String topic) throws Exception {
    try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
      List<TopicPartition> all = partitions(consumer, topic);
      int count = all.size();
      for (TopicPartition partition : all) {
        List<TopicPartition> one = List.of(partition);
        consumer.assign(one);
        consumer.seekToBeginning(one);
        long[] highest = {Long.MIN_VALUE};
        readToEnd(consumer, one, record -> {
          inputRows++;
          JsonNode row = JSON.readTree(record.value());
          if (placed && !liesRight(row, partition.partition(), count)) {
            misplacedRows++;
            return;
          }
          long at = row.get(time).bigIntegerValue().longValueExact();
          fold(row, at, highest[0], partition.partition());
          highest[0] = Math.max(highest[0], at);
        });
        close(partition.partition(), highest[0]);
      }
    }
  }

  /** Whether Kafka's own default partitioner would have put the row's key here. */
  private boolean liesRight(JsonNode row, int partition, int count) {
    JsonNode key = row.get(keys.get(0));
    if (key == null || key.isNull()) return true;
    byte[] bytes = key.asText().getBytes(java.nio.charset.StandardCharsets.UTF_8);
    return Utils.toPositive(Utils.murmur2(bytes)) % count == partition;
  }

  private boolean reached(long highest, long start) {
    return highest != Long.MIN_VALUE && highest - outOfOrderness >= start + size + lateness;
  }

  private void fold(JsonNode row, long at, long highest, int partition) {
    long start = Math.floorDiv(at, size) * size;
    if (reached(highest, start)) {
      lateRows++;
      return;
    }
    State state = panes.computeIfAbsent(pane(row, start, partition), ignored -> new State());
    state.partition = partition;
    state.rows++;
    for (Aggregate aggregate : aggregates) {
      Cell cell = state.cells.computeIfAbsent(aggregate.name, ignored -> new Cell());
      if (aggregate.column == null) {
        cell.count++;
        continue;
      }
      JsonNode value = row.get(aggregate.column);
      if (value == null || value.isNull()) continue;
      cell.count++;
      if (value.isIntegralNumber()) cell.integers = cell.integers.add(value.bigIntegerValue());
      if (value.isFloatingPointNumber()) {
        cell.sawFloat = true;
        cell.floats += value.doubleValue();
      }
      if (cell.min == null || compare(value, cell.min) < 0) cell.min = value;
      if (cell.max == null || compare(value, cell.max) > 0) cell.max = value;
    }
  }

  private static int compare(JsonNode left, JsonNode right) {
    if (left.isNumber()) return left.decimalValue().compareTo(right.decimalValue());
    return java.util.Arrays.compareUnsigned(
        left.asText().getBytes(java.nio.charset.StandardCharsets.UTF_8),
        right.asText().getBytes(java.nio.charset.StandardCharsets.UTF_8));
  }

  private Pane pane(JsonNode row, long start, int partition) {
    List<String> key = new ArrayList<>();
    boolean anyNull = false;
    for (String column : keys) {
      JsonNode value = row.get(column);
      boolean none = value == null || value.isNull();
      anyNull |= none;
      // the JSON text keeps null, "" and numbers apart
      key.add(none ? "null" : value.toString());
    }
    return new Pane(key, start, anyNull ? partition : -1);
  }

  private void close(int partition, long highest) {
    panes.forEach((pane, state) -> {
      if (state.partition == partition) state.closed = reached(highest, pane.start);
    });
  }

  private JsonNode result(Aggregate aggregate, Cell cell) {
    JsonNodeFactory make = JsonNodeFactory.instance;
    if (cell == null) return make.nullNode();
    if (aggregate.function.equals("count")) return make.numberNode(BigInteger.valueOf(cell.count));
    if (cell.count == 0) return make.nullNode();
    return switch (aggregate.function) {
      case "sum" -> cell.sawFloat ? make.numberNode(cell.floats + cell.integers.doubleValue()) : make.numberNode(cell.integers);
      case "min" -> cell.min;
      case "max" -> cell.max;
      case "mean" -> make.numberNode(cell.sawFloat
          ? (cell.floats + cell.integers.doubleValue()) / cell.count
          : new BigDecimal(cell.integers).divide(BigDecimal.valueOf(cell.count), new MathContext(60)).doubleValue());
      default -> throw new IllegalArgumentException("no aggregate " + aggregate.function);
    };
  }

  private ObjectNode expectedRow(Pane pane, State state) throws Exception {
    ObjectNode row = JSON.createObjectNode();
    for (int i = 0; i < keys.size(); i++) row.set(keys.get(i), JSON.readTree(pane.key.get(i)));
    row.put("window_start_ms", BigInteger.valueOf(pane.start));
    row.put("window_end_ms", BigInteger.valueOf(pane.start + size));
    for (Aggregate aggregate : aggregates) row.set(aggregate.name, result(aggregate, state.cells.get(aggregate.name)));
    return row;
  }

  private boolean same(ObjectNode expected, JsonNode actual) {
    if (actual.size() != expected.size()) return false;
    for (Map.Entry<String, JsonNode> field : expected.properties()) {
      JsonNode value = actual.get(field.getKey());
      if (value == null) return false;
      JsonNode wanted = field.getValue();
      // a float column may print 5 or 5.0, an integer column never a fraction
      boolean equal = wanted.isFloatingPointNumber() && value.isNumber()
          ? wanted.doubleValue() == value.doubleValue()
          : wanted.equals(value);
      if (!equal) return false;
    }
    return true;
  }

  private ObjectNode compareWith(String topic) throws Exception {
    boolean openAllowed = "allowed".equals(text("open-windows", "refused"));
    long deadline = System.nanoTime() + Duration.ofSeconds(number("wait-s", 0L)).toNanos();
    Map<Pane, JsonNode> last = new HashMap<>();
    long[] counts = new long[2];
    ObjectNode report = JSON.createObjectNode();
    ArrayNode malformed = JSON.createArrayNode();
    Sink sink = record -> {
      counts[0]++;
      JsonNode row = JSON.readTree(record.value());
      JsonNode start = row.get("window_start_ms");
      if (start == null || !start.isIntegralNumber()) {
        malformed.add(row);
        return;
      }
      // results of null keys exist once per partition: the output's own partition tells them apart only by content
      Pane pane = pane(row, start.longValue(), -1);
      if (pane.key.contains("null")) pane = nullPane(pane, row);
      if (last.put(pane, row) != null) counts[1]++;
    };
    try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
      List<TopicPartition> all = partitions(consumer, topic);
      consumer.assign(all);
      consumer.seekToBeginning(all);
      while (true) {
        readToEnd(consumer, all, sink);
        describe(report, last, openAllowed);
        if (report.get("missing").asLong() + report.get("wrong").asLong() == 0 || System.nanoTime() > deadline) break;
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) sink.take(record);
      }
    }
    report.put("rows", counts[0]);
    report.put("repeated", counts[1]);
    report.set("malformed", malformed);
    report.put("inputRows", inputRows);
    report.put("lateRows", lateRows);
    report.put("misplacedRows", misplacedRows);
    if (options.containsKey("show-open")) {
      ArrayNode open = report.putArray("open");
      for (Map.Entry<Pane, State> each : panes.entrySet()) {
        if (!each.getValue().closed) open.add(expectedRow(each.getKey(), each.getValue()));
      }
    }
    return report;
  }

  private Pane nullPane(Pane pane, JsonNode row) throws Exception {
    for (Map.Entry<Pane, State> each : panes.entrySet()) {
      Pane candidate = each.getKey();
      if (candidate.nullPartition >= 0 && candidate.start == pane.start && candidate.key.equals(pane.key)
          && same(expectedRow(candidate, each.getValue()), row)) {
        return candidate;
      }
    }
    return pane;
  }

  private void describe(ObjectNode report, Map<Pane, JsonNode> last, boolean openAllowed) throws Exception {
    ArrayNode shown = JSON.createArrayNode();
    long closed = 0;
    long missing = 0;
    long wrong = 0;
    long early = 0;
    for (Map.Entry<Pane, State> each : panes.entrySet()) {
      ObjectNode expected = expectedRow(each.getKey(), each.getValue());
      JsonNode actual = last.get(each.getKey());
      if (each.getValue().closed) closed++;
      String difference = null;
      if (actual == null) {
        if (each.getValue().closed) {
          missing++;
          difference = "missing";
        }
      } else if (!each.getValue().closed && !openAllowed) {
        early++;
        difference = "too early";
      } else if (!same(expected, actual)) {
        wrong++;
        difference = "wrong";
      }
      if (difference != null && shown.size() < SHOWN) {
        ObjectNode one = JSON.createObjectNode().put("what", difference).put("partition", each.getValue().partition);
        one.set("expected", expected);
        one.set("actual", actual);
        shown.add(one);
      }
    }
    long extra = 0;
    for (Map.Entry<Pane, JsonNode> each : last.entrySet()) {
      if (panes.containsKey(each.getKey())) continue;
      extra++;
      if (shown.size() < SHOWN) shown.add(JSON.createObjectNode().put("what", "extra").set("actual", each.getValue()));
    }
    report.put("windows", panes.size());
    report.put("closed", closed);
    report.put("missing", missing);
    report.put("wrong", wrong);
    report.put("early", early);
    report.put("extra", extra);
    report.set("differences", shown);
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, List<String>> options = new TreeMap<>();
    for (int i = 0; i < arguments.length; i++) {
      if (!arguments[i].startsWith("--")) throw new IllegalArgumentException("unexpected " + arguments[i]);
      String name = arguments[i].substring(2);
      List<String> values = options.computeIfAbsent(name, ignored -> new ArrayList<>());
      if (i + 1 < arguments.length && !arguments[i + 1].startsWith("--")) values.add(arguments[++i]);
    }
    Expected expected = new Expected(options);
    expected.readInput(expected.text("input", null));
    if (options.containsKey("print-expected")) {
      for (Map.Entry<Pane, State> each : expected.panes.entrySet()) {
        if (each.getValue().closed) System.out.println(expected.expectedRow(each.getKey(), each.getValue()));
      }
    }
    if (!options.containsKey("output")) return;
    ObjectNode report = expected.compareWith(expected.text("output", null));
    System.out.println(report);
    boolean right = report.get("missing").asLong() + report.get("wrong").asLong() + report.get("extra").asLong()
        + report.get("early").asLong() + report.get("malformed").size() == 0;
    System.exit(right ? 0 : 1);
  }
}
