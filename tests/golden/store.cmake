# Stored bytes of every format of the store.
foreshock_test(store_golden_test LABEL golden
  SOURCES store_golden_test.cc
  LINK foreshock::store foreshock::test_support RocksDB::rocksdb-shared)
foreshock_test(chunk_golden_test LABEL golden
  SOURCES chunk_golden_test.cc
  LINK foreshock::store foreshock::test_support)
