// Writes the seed corpus of ingest_fuzz: one stream per kind of summary, and one with all of them.
//   ingest_fuzz_seeds DIRECTORY

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/wire_messages.h"

namespace foreshock::fuzz {
namespace {

using namespace ::foreshock::support;  // NOLINT: the small messages

// As ingest_fuzz.cc reads them; a message of the corpus is far below 64 KiB.
void Append(const v1::PushRequest& request, std::string* out) {
  const std::string bytes = request.SerializeAsString();
  out->push_back(static_cast<char>(bytes.size() & 0xff));
  out->push_back(static_cast<char>(bytes.size() >> 8));
  out->append(bytes);
}

std::string StreamOf(const std::vector<v1::Summary>& summaries, bool model_known) {
  std::string out;
  v1::PushRequest request;
  *request.mutable_hello() = GoodHello();
  if (!model_known) request.mutable_hello()->clear_model();
  Append(request, &out);
  v1::Report report = EmptyReport(1);
  for (const v1::Summary& summary : summaries) *report.add_summaries() = summary;
  *request.mutable_report() = report;
  Append(request, &out);
  request.mutable_report()->set_seq(2);
  Append(request, &out);
  *request.mutable_goodbye() = GoodGoodbye();
  Append(request, &out);
  return out;
}

bool WriteFile(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  return file.good();
}

}  // namespace
}  // namespace foreshock::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: ingest_fuzz_seeds DIRECTORY\n");
    return 2;
  }
  using foreshock::fuzz::StreamOf;
  const std::filesystem::path directory = argv[1];
  std::filesystem::create_directories(directory);
  const std::vector<foreshock::v1::Summary> all = foreshock::support::GoodSummaries();
  bool good = foreshock::fuzz::WriteFile(directory / "all", StreamOf(all, true)) &&
              foreshock::fuzz::WriteFile(directory / "all_unknown_model", StreamOf(all, false));
  for (size_t i = 0; i < all.size(); ++i) {
    good = good && foreshock::fuzz::WriteFile(directory / ("kind_" + std::to_string(i)),
                                              StreamOf({all[i]}, true));
  }
  return good ? 0 : 1;
}
