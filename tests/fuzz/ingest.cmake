# Bytes of a stream -> PushRequests -> protocol and validation; seeds are made at build time.
foreshock_executable(ingest_fuzz_seeds SOURCES ingest_fuzz_seeds.cc LINK foreshock::proto)
set(ingest_corpus ${CMAKE_CURRENT_BINARY_DIR}/ingest_corpus)
add_custom_command(OUTPUT ${ingest_corpus}/.made
  COMMAND ingest_fuzz_seeds ${ingest_corpus} && ${CMAKE_COMMAND} -E touch ${ingest_corpus}/.made
  DEPENDS ingest_fuzz_seeds VERBATIM)
add_custom_target(ingest_corpus ALL DEPENDS ${ingest_corpus}/.made)
foreshock_fuzz(ingest_fuzz SOURCES ingest_fuzz.cc LINK foreshock::ingest CORPUS ${ingest_corpus})
