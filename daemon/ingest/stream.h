// The protocol of one stream, without any transport: Hello first and once, seq that grows, names
// that are declared before they are used, Goodbye last. Thread-compatible.
//
//   StreamState stream(limits, &stats);
//   FORESHOCK_RETURN_IF_ERROR(stream.OnHello(hello));
//   FORESHOCK_ASSIGN_OR_RETURN(StreamState::Checked checked, stream.OnReport(&report));
//   sink_stream->Submit(report, stream.names(), std::move(checked.rejections));
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/ingest/limits.h"
#include "daemon/ingest/name_table.h"
#include "daemon/model/stream_names.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::ingest {

class StreamState {
 public:
  StreamState(const IngestLimits& limits, IngestStats* stats)
      : limits_(limits), stats_(stats), names_(limits) {}

  // An error of any of these ends the stream: FailedPrecondition when the Hello is missing, else
  // InvalidArgument.
  absl::Status OnHello(const v1::Hello& hello);

  struct Checked {
    bool report_stands = true;  // false: `rejections` holds one, of the whole report
    std::vector<v1::Rejection> rejections;
  };
  // Clears the summaries that are not valid; the others keep their index.
  absl::StatusOr<Checked> OnReport(v1::Report* report);

  absl::Status OnGoodbye(const v1::Goodbye& goodbye);

  const model::StreamNames& names() const { return names_.names(); }
  uint64_t last_seq() const { return last_seq_; }  // of the last report; 0: none yet

 private:
  enum class State { kNew, kOpen, kClosed };

  absl::Status CheckOpen(const char* what) const;

  const IngestLimits limits_;
  IngestStats* const stats_;
  State state_ = State::kNew;
  v1::ModelShape model_;
  NameTable names_;
  uint64_t last_seq_ = 0;
};

// True when working through the report takes milliseconds: spectra are computed from it.
bool IsHeavy(const v1::Report& report);

}  // namespace foreshock::ingest
