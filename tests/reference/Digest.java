import org.apache.kafka.common.utils.Utils;

/**
 * One number for murmur2, by Kafka's own code, of 100,000 keys of 0 to 64 bytes that any language can make again.
 *
 * <p>A state of 64 bits begins at 1; each step is state = state * 6364136223846793005 + 1442695040888963407, modulo 2^64. A
 * key takes one step for its length, (state >>> 33) % 65, and one step per byte, state >>> 56. The digest, 64 bits as well, is
 * digest * 31 + hash, the hash as a signed number.
 */
public final class Digest {
  private static long state = 1;

  private static long step() {
    state = state * 6364136223846793005L + 1442695040888963407L;
    return state;
  }

  public static void main(String[] arguments) {
    long digest = 0;
    for (int key = 0; key < 100_000; key++) {
      byte[] bytes = new byte[(int) ((step() >>> 33) % 65)];
      for (int at = 0; at < bytes.length; at++) bytes[at] = (byte) (step() >>> 56);
      digest = digest * 31 + Utils.murmur2(bytes);
    }
    System.out.println(digest);
  }
}
