#include "client/cli/declarations.h"

namespace foreshock::cli {
namespace {

// The report's first batch of scalars, or of tensor statistics; made if there is none.
v1::ScalarBatch* ScalarsOf(v1::Report* report) {
  for (v1::Summary& summary : *report->mutable_summaries()) {
    if (summary.has_scalars()) return summary.mutable_scalars();
  }
  return report->add_summaries()->mutable_scalars();
}

v1::TensorStatsBatch* TensorsOf(v1::Report* report) {
  for (v1::Summary& summary : *report->mutable_summaries()) {
    if (summary.has_tensor_stats()) return summary.mutable_tensor_stats();
  }
  return report->add_summaries()->mutable_tensor_stats();
}

}  // namespace

void Declarations::Note(const v1::Report& report) {
  for (const v1::Summary& summary : report.summaries()) {
    for (const v1::ScalarDeclaration& name : summary.scalars().declare()) {
      scalars_[name.id()] = name;
    }
    for (const v1::TensorDeclaration& name : summary.tensor_stats().declare()) {
      tensors_[name.id()] = name;
    }
  }
}

void Declarations::MoveInto(v1::Report* report) {
  for (const v1::Summary& summary : report->summaries()) {
    for (const v1::ScalarDeclaration& name : summary.scalars().declare()) scalars_.erase(name.id());
    for (const v1::TensorDeclaration& name : summary.tensor_stats().declare()) {
      tensors_.erase(name.id());
    }
  }
  if (!scalars_.empty()) {
    v1::ScalarBatch* batch = ScalarsOf(report);
    for (const auto& [id, name] : scalars_) *batch->add_declare() = name;
  }
  if (!tensors_.empty()) {
    v1::TensorStatsBatch* batch = TensorsOf(report);
    for (const auto& [id, name] : tensors_) *batch->add_declare() = name;
  }
  scalars_.clear();
  tensors_.clear();
}

}  // namespace foreshock::cli
