# The store under kill -9, full disks, failing writes and a second process.
foreshock_library(test_store_batches SOURCES store_batches.cc store_blocks.cc PUBLIC foreshock::store)
foreshock_executable(store_child SOURCES store_child.cc LINK foreshock::test_store_batches)
foreshock_test(store_crash_test LABEL fault
  SOURCES store_crash_test.cc
  LINK foreshock::test_store_batches foreshock::test_support)
target_compile_definitions(store_crash_test PRIVATE STORE_CHILD="$<TARGET_FILE:store_child>")
add_dependencies(store_crash_test store_child)
foreshock_test(store_disk_test LABEL fault
  SOURCES store_disk_test.cc
  LINK foreshock::test_store_batches foreshock::test_support)
foreshock_test(store_damage_test LABEL fault
  SOURCES store_damage_test.cc
  LINK foreshock::test_store_batches foreshock::test_support)
foreshock_test(store_write_failure_test LABEL fault
  SOURCES store_write_failure_test.cc
  LINK foreshock::test_store_batches foreshock::test_support RocksDB::rocksdb-shared)
