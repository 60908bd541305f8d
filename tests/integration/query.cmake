foreshock_test(query_service_test LABEL integration
  SOURCES query_service_test.cc
  LINK foreshock::query foreshock::http foreshock::test_memory_store foreshock::test_support
       gRPC::grpc++)
