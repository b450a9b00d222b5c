import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/**
 * Where Kafka's Java client puts keys, by its own code: `Utils.murmur2` and the default partitioner.
 *
 * <p>java -cp "$LIBS/*" Vectors.java KEYS SEED COUNT...
 *
 * <p>Per key one line of fields with a blank between them: the key in hex (`-` for no bytes), murmur2 as a signed number, and
 * the partition for each COUNT. The first keys are those whose hashes are the smallest and the largest number of 32 bits, and
 * the empty key; the others have 0 to 64 random bytes.
 */
public final class Vectors {
  private static final int LONGEST = 64;

  public static void main(String[] arguments) {
    int keys = Integer.parseInt(arguments[0]);
    Random random = new Random(Long.parseLong(arguments[1]));
    int[] counts = Arrays.stream(arguments).skip(2).mapToInt(Integer::parseInt).toArray();
    List<byte[]> all = new ArrayList<>();
    all.add("3490358332".getBytes(StandardCharsets.UTF_8));
    all.add("842411034".getBytes(StandardCharsets.UTF_8));
    all.add(new byte[0]);
    while (all.size() < keys) {
      byte[] key = new byte[random.nextInt(LONGEST + 1)];
      random.nextBytes(key);
      all.add(key);
    }
    StringBuilder out = new StringBuilder();
    for (byte[] key : all) {
      out.append(key.length == 0 ? "-" : HexFormat.of().formatHex(key)).append(' ').append(Utils.murmur2(key));
      for (int count : counts) {
        out.append(' ').append(BuiltInPartitioner.partitionForKey(key, count));
      }
      out.append('\n');
    }
    System.out.print(out);
  }
}
