foreshock_test(store_property_test LABEL property
  SOURCES store_property_test.cc store_chunks_property_test.cc
  LINK foreshock::test_memory_store foreshock::test_support)
