// Who contributed a statistic: ids and fingerprints of model::Source, by which the merge tells
// shards (different ids: they add) from replicas (equal ids: the first wins).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "absl/strings/string_view.h"
#include "daemon/model/shards.pb.h"
#include "foreshock/v1/types.pb.h"

namespace foreshock::indicators {

// Id of the tokens a rank sees when the payload names none: ranks with equal (data, context)
// coordinates see the same tokens, all others different ones. Bit 63 is set, so that derived and
// explicit ids never meet: an explicit id keeps its lower 63 bits. Data coordinates count to 2^31.
uint64_t DerivedTokenShard(const v1::Coordinates& coordinates);
uint64_t ExplicitTokenShard(uint64_t token_shard);

// XXH3 (64 bit) of the parts in order: the same on every machine and in every version of Foreshock,
// which stored open statistics rely on.
uint64_t Fingerprint(std::initializer_list<absl::string_view> parts);

// The source of a payload with a token_shard field.
template <typename Payload>
uint64_t TokenShardOf(const Payload& payload, const v1::Coordinates& coordinates) {
  return payload.has_token_shard() ? ExplicitTokenShard(payload.token_shard())
                                   : DerivedTokenShard(coordinates);
}

// Id of a row range: begin << 32 | count. An absent range stands for all `total` rows.
uint64_t RowRangeId(uint32_t begin, uint32_t count);

}  // namespace foreshock::indicators
