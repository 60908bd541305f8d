foreshock_test(ingest_integration_test LABEL integration
  SOURCES ingest_test.cc ingest_overload_test.cc
  LINK foreshock::ingest foreshock::rpc foreshock::test_support gRPC::grpc++)
