foreshock_executable(store_bench SOURCES store_bench.cc
                     LINK foreshock::store foreshock::test_support RocksDB::rocksdb-shared
                          benchmark::benchmark_main)
# Beside Prometheus and VictoriaMetrics, by store_peers.py.
foreshock_executable(store_feed SOURCES store_feed.cc
                     LINK foreshock::backtest foreshock::store RocksDB::rocksdb-shared)
# The numbers of docs/adr/0010-chunk-codec.md; takes captures, so not one of `make bench`.
foreshock_executable(chunk_candidates SOURCES chunk_candidates.cc
                     LINK foreshock::backtest foreshock::store foreshock::test_support
                          RocksDB::rocksdb-shared PkgConfig::ZSTD)
