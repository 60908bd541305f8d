#include "daemon/store/messages.h"

namespace foreshock::store {
namespace {

void FillRows(const StoreUsage::Rows& rows, v1::StoreRows* message) {
  message->set_rows(rows.rows);
  message->set_bytes(rows.bytes);
}

}  // namespace

v1::GetStoreStatsResponse ToProto(const StoreUsage& usage) {
  v1::GetStoreStatsResponse response;
  response.set_disk_bytes(usage.disk_bytes);
  for (const StoreUsage::Family& family : usage.families) {
    v1::StoreFamily* message = response.add_families();
    message->set_name(family.name);
    FillRows(family.rows, message->mutable_rows());
    message->set_disk_bytes(family.disk_bytes);
    message->set_memory_bytes(family.memory_bytes);
  }
  for (const StoreUsage::Run& run : usage.runs) {
    v1::StoreRun* message = response.add_runs();
    message->set_name(run.name);
    message->set_pinned(run.pinned);
    message->set_series(run.series);
    message->set_attempts(static_cast<uint32_t>(run.attempts));
    for (const StoreUsage::Rows& rows : run.families) FillRows(rows, message->add_families());
    message->set_disk_bytes(run.disk_bytes);
    message->set_open_steps(run.open_steps);
    message->set_open_points(run.open_points);
    FillRows(run.raw, message->mutable_raw());
    message->set_raw_points(run.raw_points);
    FillRows(run.downsampled, message->mutable_downsampled());
    message->set_downsampled_points(run.downsampled_points);
    FillRows(run.steps, message->mutable_steps());
    message->set_step_rows(run.step_rows);
    if (run.first_step.has_value()) message->set_first_step(*run.first_step);
    if (run.last_step.has_value()) message->set_last_step(*run.last_step);
    message->set_oldest_unix_ns(run.oldest_unix_ns);
    message->set_newest_unix_ns(run.newest_unix_ns);
    if (run.raw_from.has_value()) message->set_raw_from(*run.raw_from);
  }
  return response;
}

v1::VerifyFinding ToProto(const VerifyFinding& finding) {
  v1::VerifyFinding message;
  message.set_family(finding.family);
  message.set_file(finding.file);
  message.set_where(finding.where);
  message.set_what(finding.what);
  return message;
}

v1::VerifyProgress ToProto(const VerifyProgress& progress) {
  v1::VerifyProgress message;
  message.set_stage(progress.stage);
  message.set_done(progress.done);
  message.set_total(progress.total);
  return message;
}

v1::VerifyResult ToProto(const VerifyResult& result) {
  v1::VerifyResult message;
  message.set_files(result.files);
  message.set_file_bytes(result.file_bytes);
  message.set_rows(result.rows);
  message.set_chunks(result.chunks);
  message.set_points(result.points);
  message.set_findings(result.findings);
  return message;
}

}  // namespace foreshock::store
