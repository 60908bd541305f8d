# The bytes of the wire contract; docs/compatibility.md says what may change.
foreshock_test(wire_golden_test LABEL golden
  SOURCES wire_golden_test.cc
  LINK foreshock::proto foreshock::test_support)
