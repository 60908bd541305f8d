#include <cmath>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/validate.h"

namespace foreshock::ingest::internal {
namespace {

// One value per id and batch, else a re-declared order would decide which one counts.
class SeenIds {
 public:
  absl::Status Add(const Field& field, uint32_t id, int index) {
    const auto [at, fresh] = index_.emplace(id, index);
    if (fresh) return absl::OkStatus();
    return field.Refuse(absl::StrCat(id, " again (first at index ", at->second, ")"),
                        "each id once");
  }

 private:
  absl::flat_hash_map<uint32_t, int> index_;
};

absl::Status Undeclared(const Field& field, uint32_t id) {
  return field.Refuse(absl::StrCat(id, ", never declared"),
                      "ids declared in this or an earlier report of the stream");
}

}  // namespace

absl::Status Scalars(const Field& field, const v1::ScalarBatch& batch, NameTable* names) {
  absl::Status declared;
  for (int i = 0; i < batch.declare_size(); ++i) {
    declared.Update(names->Declare(Field(field, "declare", i), batch.declare(i)));
  }
  FORESHOCK_RETURN_IF_ERROR(declared);
  if (batch.values_size() != batch.ids_size()) {
    return Field(field, "values")
        .Refuse(absl::StrCat(batch.values_size(), " values"),
                absl::StrCat(batch.ids_size(), ", one per id"));
  }
  if (batch.weights_size() != 0 && batch.weights_size() != batch.ids_size()) {
    return Field(field, "weights")
        .Refuse(absl::StrCat(batch.weights_size(), " weights"),
                absl::StrCat("none, or ", batch.ids_size(), ", one per id"));
  }
  SeenIds seen;
  for (int i = 0; i < batch.ids_size(); ++i) {
    const uint32_t id = batch.ids(i);
    const Field at(field, "ids", i);
    if (!names->names().scalars.contains(id)) return Undeclared(at, id);
    FORESHOCK_RETURN_IF_ERROR(seen.Add(at, id, i));
  }
  for (int i = 0; i < batch.weights_size(); ++i) {
    // A weight is the sender's count of something, never a result of the training.
    if (!(std::isfinite(batch.weights(i)) && batch.weights(i) >= 0)) {
      return Field(field, "weights", i).Refuse(absl::StrCat(batch.weights(i)), "finite, >= 0");
    }
  }
  return absl::OkStatus();
}

absl::Status TensorStats(const Field& field, const v1::TensorStatsBatch& batch,
                         const v1::ModelShape& model, NameTable* names) {
  absl::Status declared;
  for (int i = 0; i < batch.declare_size(); ++i) {
    const Field at(field, "declare", i);
    const v1::TensorDeclaration& declaration = batch.declare(i);
    if (declaration.has_layer()) {
      const absl::Status layer = CheckLayer(Field(at, "layer"), declaration.layer(), model);
      declared.Update(layer);
      if (!layer.ok()) continue;
    }
    declared.Update(names->Declare(at, declaration));
  }
  FORESHOCK_RETURN_IF_ERROR(declared);
  SeenIds seen;
  for (int i = 0; i < batch.stats_size(); ++i) {
    const v1::TensorStats& stats = batch.stats(i);
    const Field at(field, "stats", i);
    if (!names->names().tensors.contains(stats.id())) {
      return Undeclared(Field(at, "id"), stats.id());
    }
    FORESHOCK_RETURN_IF_ERROR(seen.Add(Field(at, "id"), stats.id(), i));
    if (stats.count() == 0 && stats.nan_count() == 0 && stats.inf_count() == 0) {
      return Field(at, "count").Refuse("0 and no non-finite elements", "a tensor with elements");
    }
    if (stats.count() == 0) continue;  // no finite element: the moments mean nothing
    // Written so that NaN moments pass: they are findings.
    if (stats.min() > stats.max()) {
      return Field(at, "min").Refuse(absl::StrCat(stats.min()),
                                     absl::StrCat("at most max, ", stats.max()));
    }
    // rms and mean may have been summed in float32, each with its own rounding.
    constexpr double kRounding = 1e-4;
    if (stats.rms() < std::abs(stats.mean()) * (1 - kRounding)) {
      return Field(at, "rms").Refuse(absl::StrCat(stats.rms()),
                                     absl::StrCat("at least |mean|, ", std::abs(stats.mean())));
    }
    if (stats.rms() < 0) return Field(at, "rms").Refuse(absl::StrCat(stats.rms()), ">= 0");
    if (stats.input_rms() < 0) {
      return Field(at, "input_rms").Refuse(absl::StrCat(stats.input_rms()), ">= 0");
    }
  }
  return absl::OkStatus();
}

}  // namespace foreshock::ingest::internal
