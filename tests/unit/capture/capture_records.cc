#include "tests/unit/capture/capture_records.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace foreshock::capture {

v1::CaptureRecord HelloRecord(uint32_t stream) {
  v1::CaptureRecord record;
  record.set_stream(stream);
  v1::Hello* hello = record.mutable_message()->mutable_hello();
  hello->set_run("run");
  hello->set_launch_id("launch");
  hello->set_client_instance(absl::StrCat("instance-", stream));
  hello->set_rank(stream);
  hello->set_world_size(2);
  return record;
}

v1::CaptureRecord ReportRecord(uint32_t stream, uint64_t seq, double loss) {
  v1::CaptureRecord record;
  record.set_stream(stream);
  v1::Report* report = record.mutable_message()->mutable_report();
  report->set_seq(seq);
  report->set_step(static_cast<int64_t>(seq) - 1);
  report->set_last_of_step(true);
  v1::ScalarBatch* scalars = report->add_summaries()->mutable_scalars();
  scalars->add_ids(1);
  scalars->add_values(loss);
  return record;
}

v1::CaptureRecord GoodbyeRecord(uint32_t stream) {
  v1::CaptureRecord record;
  record.set_stream(stream);
  record.mutable_message()->mutable_goodbye()->set_outcome(v1::OUTCOME_FINISHED);
  return record;
}

std::vector<v1::CaptureRecord> SmallCapture(int steps) {
  std::vector<v1::CaptureRecord> records = {HelloRecord(0), HelloRecord(1)};
  for (int step = 0; step < steps; ++step) {
    for (uint32_t stream : {0u, 1u}) {
      records.push_back(ReportRecord(stream, static_cast<uint64_t>(step) + 1, 1.0 / (step + 1)));
    }
  }
  records.push_back(GoodbyeRecord(0));
  records.push_back(GoodbyeRecord(1));
  return records;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace foreshock::capture
