// A stream as a sender's bytes: messages, each behind its length as two bytes, little-endian.
// Whatever they are, the protocol and the checks must answer, never crash, and let only valid
// summaries pass.

#include <cstddef>
#include <cstdint>

#include "daemon/base/check.h"
#include "daemon/ingest/stream.h"
#include "daemon/ingest/tensor_check.h"
#include "foreshock/v1/ingest.pb.h"
#include "google/protobuf/stubs/logging.h"

namespace foreshock::fuzz {
namespace {

// Whoever comes after the checks reads every element: so does this.
void ReadAll(const v1::Tensor& tensor) {
  size_t elements = 1;
  for (const uint32_t extent : tensor.shape()) elements *= extent;
  FORESHOCK_CHECK(elements * model::ElementBytes(tensor.dtype()) == tensor.data().size());
  if (tensor.dtype() == v1::DTYPE_I32 || tensor.dtype() == v1::DTYPE_I64) {
    for (size_t i = 0; i < elements; ++i) (void)ingest::IntegerAt(tensor, i);
  }
}

void CheckPassed(const v1::Summary& summary, const model::StreamNames& names) {
  for (const uint32_t id : summary.scalars().ids()) FORESHOCK_CHECK(names.scalars.contains(id));
  for (const auto& stats : summary.tensor_stats().stats()) {
    FORESHOCK_CHECK(names.tensors.contains(stats.id()));
  }
  if (summary.has_router_gates()) ReadAll(summary.router_gates().scores());
  if (summary.router_gates().has_chosen()) ReadAll(summary.router_gates().chosen());
  if (summary.has_router_load()) ReadAll(summary.router_load().counts());
  if (summary.has_router_weights()) ReadAll(summary.router_weights().weights());
  if (summary.has_qk_gram()) ReadAll(summary.qk_gram().gram_a());
  if (summary.attention_logits().has_logits()) ReadAll(summary.attention_logits().logits());
  if (summary.has_policy_mismatch()) ReadAll(summary.policy_mismatch().rollout_logprobs());
}

void RunStream(const uint8_t* data, size_t size) {
  ingest::IngestStats stats;
  ingest::StreamState stream({.scalars_per_stream_max = 8, .tensors_per_stream_max = 8}, &stats);
  v1::PushRequest request;
  while (size >= 2) {
    size_t length = data[0] | data[1] << 8;
    data += 2;
    size -= 2;
    if (length > size) length = size;
    const bool parsed = request.ParseFromArray(data, static_cast<int>(length));
    data += length;
    size -= length;
    if (!parsed) continue;  // gRPC ends the stream then; here the rest may still be interesting
    if (request.has_hello()) {
      (void)stream.OnHello(request.hello());
    } else if (request.has_report()) {
      const auto checked = stream.OnReport(request.mutable_report());
      if (!checked.ok() || !checked->report_stands) continue;
      for (const v1::Summary& summary : request.report().summaries()) {
        CheckPassed(summary, stream.names());
      }
    } else if (request.has_goodbye()) {
      (void)stream.OnGoodbye(request.goodbye());
    }
  }
}

}  // namespace
}  // namespace foreshock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer no_lines_about_bad_text;
  foreshock::fuzz::RunStream(data, size);
  return 0;
}
