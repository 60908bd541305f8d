# Capture files of every version stay readable; files written today are those of the newest version.
foreshock_test(capture_golden_test LABEL golden
  SOURCES capture_golden_test.cc
  LINK foreshock::capture foreshock::test_support PkgConfig::ZSTD)
