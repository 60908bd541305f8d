// A driver for fuzz targets without libFuzzer, PROGRAM DIRECTORY MUTATIONS: feeds the files of the
// directory, then random mutations of them. Short and repeatable: the seed is printed and may be
// set by FORESHOCK_SEED; FORESHOCK_FUZZ_RUNS sets another number of mutations.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

uint64_t Setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

void Run(const Bytes& bytes) { LLVMFuzzerTestOneInput(bytes.data(), bytes.size()); }

Bytes Mutate(Bytes bytes, std::mt19937_64& random) {
  for (uint64_t edits = 1 + random() % 8; edits > 0; --edits) {
    const size_t at = bytes.empty() ? 0 : random() % bytes.size();
    switch (random() % 5) {
      case 0:
        if (!bytes.empty()) bytes[at] ^= static_cast<uint8_t>(1u << random() % 8);
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<uint8_t>(random());
        break;
      case 2:
        bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), static_cast<uint8_t>(random()));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:  // repeat a part
        bytes.insert(bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(at / 2),
                     bytes.begin() + static_cast<ptrdiff_t>(at));
        if (bytes.size() > 1u << 16) bytes.resize(1u << 16);
        break;
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s DIRECTORY MUTATIONS\n", argv[0]);
    return 2;
  }
  const uint64_t seed = Setting("FORESHOCK_SEED", std::random_device{}());
  const uint64_t runs = Setting("FORESHOCK_FUZZ_RUNS", std::strtoull(argv[2], nullptr, 10));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);

  std::vector<Bytes> corpus = {{}};
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  for (const Bytes& bytes : corpus) Run(bytes);
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < runs; ++i) Run(Mutate(corpus[random() % corpus.size()], random));
  std::printf("%zu files and %llu mutations\n", corpus.size() - 1,
              static_cast<unsigned long long>(runs));
  return 0;
}
