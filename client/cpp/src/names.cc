#include "client/cpp/src/names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::client_internal {
namespace {

bool Same(const v1::ScalarDeclaration& a, const v1::ScalarDeclaration& b) {
  return a.name() == b.name() && a.unit() == b.unit() && a.reduction() == b.reduction() &&
         a.scope() == b.scope();
}

bool Same(const v1::TensorDeclaration& a, const v1::TensorDeclaration& b) {
  return a.name() == b.name() && a.has_layer() == b.has_layer() && a.layer() == b.layer();
}

absl::Status Clash(const char* what, uint32_t id, const std::string& name,
                   const std::string& known) {
  return absl::InvalidArgumentError(absl::StrCat("declaring ", what, " id ", id, " as \"", name,
                                                 "\": it stands for \"", known,
                                                 "\", declared otherwise"));
}

absl::Status Undeclared(const char* what, uint32_t id) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " id ", id, " was never declared; declare it once, then use the id"));
}

}  // namespace

absl::StatusOr<uint32_t> Names::DeclareScalar(v1::ScalarDeclaration declaration) {
  const auto known = scalar_ids_.find({declaration.name(), declaration.scope()});
  const uint32_t id = known == scalar_ids_.end() ? next_id_ : known->second;
  declaration.set_id(id);
  FORESHOCK_RETURN_IF_ERROR(Learn(declaration));
  return id;
}

absl::Status Names::Learn(const v1::ScalarDeclaration& declaration) {
  const auto [at, fresh] = scalars_.emplace(declaration.id(), declaration);
  if (!fresh) {
    if (Same(at->second, declaration)) return absl::OkStatus();
    return Clash("scalar", declaration.id(), declaration.name(), at->second.name());
  }
  scalar_ids_.emplace(std::make_pair(declaration.name(), declaration.scope()), declaration.id());
  next_id_ = std::max(next_id_, declaration.id() + 1);
  return absl::OkStatus();
}

absl::Status Names::Learn(const v1::TensorDeclaration& declaration) {
  const auto [at, fresh] = tensors_.emplace(declaration.id(), declaration);
  if (fresh || Same(at->second, declaration)) return absl::OkStatus();
  return Clash("tensor", declaration.id(), declaration.name(), at->second.name());
}

absl::Status Names::Absorb(v1::Report* report) {
  for (v1::Summary& summary : *report->mutable_summaries()) {
    if (summary.has_scalars()) {
      v1::ScalarBatch* batch = summary.mutable_scalars();
      for (const auto& declaration : batch->declare()) {
        FORESHOCK_RETURN_IF_ERROR(Learn(declaration));
      }
      batch->clear_declare();
      for (const uint32_t id : batch->ids()) {
        if (!scalars_.contains(id)) return Undeclared("scalar", id);
      }
    } else if (summary.has_tensor_stats()) {
      v1::TensorStatsBatch* batch = summary.mutable_tensor_stats();
      for (const auto& declaration : batch->declare()) {
        FORESHOCK_RETURN_IF_ERROR(Learn(declaration));
      }
      batch->clear_declare();
      for (const v1::TensorStats& stats : batch->stats()) {
        if (!tensors_.contains(stats.id())) return Undeclared("tensor", stats.id());
      }
    }
  }
  return absl::OkStatus();
}

void Names::DeclareFor(v1::Report* report, StreamIds* known) const {
  for (v1::Summary& summary : *report->mutable_summaries()) {
    if (summary.has_scalars()) {
      v1::ScalarBatch* batch = summary.mutable_scalars();
      batch->clear_declare();
      for (const uint32_t id : batch->ids()) {
        if (known->scalars.insert(id).second) *batch->add_declare() = scalars_.at(id);
      }
    } else if (summary.has_tensor_stats()) {
      v1::TensorStatsBatch* batch = summary.mutable_tensor_stats();
      batch->clear_declare();
      for (const v1::TensorStats& stats : batch->stats()) {
        if (known->tensors.insert(stats.id()).second) {
          *batch->add_declare() = tensors_.at(stats.id());
        }
      }
    }
  }
}

}  // namespace foreshock::client_internal
