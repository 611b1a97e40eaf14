import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.CompressionType;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Statistics;
import org.rocksdb.WriteOptions;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.measurements.Measurements;

/**
 * YCSB on RocksDB, with a log of every operation.
 *
 * <p>Each client thread writes a file of its own, `THREAD.own` in the folder `own.log`: lines of kind, start (when it was due, where a
 * target rate is set), latency, thread number of the kernel, and how late it began. Times are System.nanoTime(), which on Linux is
 * CLOCK_MONOTONIC. YCSB's own raw measurements tell times to 1 ms, which no system call can be tied to.
 */
public final class RocksDb extends DB {
  static {
    RocksDB.loadLibrary();
  }

  private static RocksDB db;
  private static Options options;
  private static int users;

  private final WriteOptions write = new WriteOptions();
  private final StringBuilder line = new StringBuilder(64);
  private OutputStream log;
  private String thread;
  private boolean paced;

  @Override
  public void init() throws DBException {
    Properties given = getProperties();
    paced = Integer.parseInt(given.getProperty("target", "0")) > 0;
    write.setSync(Boolean.parseBoolean(given.getProperty("rocksdb.sync", "false")));
    try {
      // The kernel's number of this thread; its name is what a recording shows.
      thread = new File("/proc/thread-self").getCanonicalFile().getName();
      Thread.currentThread().setName("ycsb-client");
      open(given);
      File folder = new File(given.getProperty("own.log"));
      log = new BufferedOutputStream(new FileOutputStream(new File(folder, thread + ".own")), 1 << 16);
    } catch (IOException | RocksDBException error) {
      throw new DBException(error);
    }
  }

  private static synchronized void open(Properties given) throws RocksDBException {
    if (users++ > 0) {
      return;
    }
    BlockBasedTableConfig table = new BlockBasedTableConfig();
    table.setBlockCache(new LRUCache(Long.parseLong(given.getProperty("rocksdb.cache"))));
    table.setFilterPolicy(new BloomFilter(10));
    options = new Options();
    options.setCreateIfMissing(true);
    options.setTableFormatConfig(table);
    options.setWriteBufferSize(Long.parseLong(given.getProperty("rocksdb.buffer")));
    options.setTargetFileSizeBase(Long.parseLong(given.getProperty("rocksdb.buffer")));
    options.setCompressionType(CompressionType.NO_COMPRESSION);
    options.setMaxBackgroundJobs(2);
    // What its own cache does not hold comes from the device, not from the kernel's page cache.
    options.setUseDirectReads(true);
    options.setStatistics(new Statistics());
    options.setStatsDumpPeriodSec(10);
    db = RocksDB.open(options, given.getProperty("rocksdb.dir"));
  }

  @Override
  public void cleanup() throws DBException {
    try {
      log.close();
    } catch (IOException error) {
      throw new DBException(error);
    }
    synchronized (RocksDb.class) {
      if (--users == 0) {
        db.close();
        options.close();
      }
    }
  }

  private long begin() {
    return System.nanoTime();
  }

  private void end(String kind, long submit) {
    long end = System.nanoTime();
    long due = paced ? Measurements.getMeasurements().getIntendedtartTimeNs() : 0;
    long start = due > 0 && due <= submit ? due : submit;
    line.setLength(0);
    line.append(kind).append(' ').append(start).append(' ').append(end - start).append(' ').append(thread);
    line.append(' ').append(submit - start).append('\n');
    try {
      log.write(line.toString().getBytes(StandardCharsets.US_ASCII));
    } catch (IOException error) {
      throw new java.io.UncheckedIOException("the log of operations cannot be written", error);
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    long begin = begin();
    try {
      byte[] value = db.get(key.getBytes(StandardCharsets.UTF_8));
      if (value == null) {
        return Status.NOT_FOUND;
      }
      unpack(value, fields, result);
      return Status.OK;
    } catch (RocksDBException error) {
      return failed(error);
    } finally {
      end("read", begin);
    }
  }

  @Override
  public Status scan(
      String table, String from, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> found) {
    long begin = begin();
    try (RocksIterator iterator = db.newIterator()) {
      iterator.seek(from.getBytes(StandardCharsets.UTF_8));
      for (int n = 0; n < count && iterator.isValid(); n++, iterator.next()) {
        HashMap<String, ByteIterator> row = new HashMap<>();
        unpack(iterator.value(), fields, row);
        found.add(row);
      }
      iterator.status();
      return Status.OK;
    } catch (RocksDBException error) {
      return failed(error);
    } finally {
      end("scan", begin);
    }
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    long begin = begin();
    try {
      byte[] id = key.getBytes(StandardCharsets.UTF_8);
      byte[] old = db.get(id);
      Map<String, ByteIterator> all = new HashMap<>();
      if (old != null) {
        unpack(old, null, all);
      }
      all.putAll(values);
      db.put(write, id, pack(all));
      return Status.OK;
    } catch (RocksDBException error) {
      return failed(error);
    } finally {
      end("update", begin);
    }
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    long begin = begin();
    try {
      db.put(write, key.getBytes(StandardCharsets.UTF_8), pack(values));
      return Status.OK;
    } catch (RocksDBException error) {
      return failed(error);
    } finally {
      end("insert", begin);
    }
  }

  @Override
  public Status delete(String table, String key) {
    long begin = begin();
    try {
      db.delete(write, key.getBytes(StandardCharsets.UTF_8));
      return Status.OK;
    } catch (RocksDBException error) {
      return failed(error);
    } finally {
      end("update", begin);
    }
  }

  private static Status failed(RocksDBException error) {
    System.err.println("RocksDB: " + error.getMessage());
    return Status.ERROR;
  }

  private static byte[] pack(Map<String, ByteIterator> values) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(1024);
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      for (Map.Entry<String, ByteIterator> field : values.entrySet()) {
        byte[] value = field.getValue().toArray();
        out.writeUTF(field.getKey());
        out.writeInt(value.length);
        out.write(value);
      }
    } catch (IOException error) {
      throw new java.io.UncheckedIOException("an array in memory cannot be written", error);
    }
    return bytes.toByteArray();
  }

  private static void unpack(byte[] packed, Set<String> wanted, Map<String, ByteIterator> into) {
    ByteBuffer bytes = ByteBuffer.wrap(packed);
    while (bytes.hasRemaining()) {
      byte[] name = new byte[Short.toUnsignedInt(bytes.getShort())];
      bytes.get(name);
      byte[] value = new byte[bytes.getInt()];
      bytes.get(value);
      String field = new String(name, StandardCharsets.UTF_8);
      if (wanted == null || wanted.contains(field)) {
        into.put(field, new ByteArrayByteIterator(value));
      }
    }
  }
}
