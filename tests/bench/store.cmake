foreshock_executable(store_bench SOURCES store_bench.cc
                     LINK foreshock::store foreshock::test_support benchmark::benchmark_main)
# The numbers of docs/adr/0010-chunk-codec.md; takes captures, so not one of `make bench`.
foreshock_executable(chunk_candidates SOURCES chunk_candidates.cc
                     LINK foreshock::backtest foreshock::store foreshock::test_support
                          RocksDB::rocksdb-shared PkgConfig::ZSTD)
