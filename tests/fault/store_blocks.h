// A run in blocks of steps. Retention treats it while the process is killed.
//
//   ASSERT_OK(store->Write(BlockAfter(0)));
//   EXPECT_EQ(CheckHoldsBlocks(*store, kBlockSteps), "");
#pragma once

#include <cstdint>
#include <string>

#include "daemon/store/disk_store.h"

namespace foreshock::fault {

inline constexpr char kBlockRun[] = "blocks";
// The first step of the run is 1.
inline constexpr int64_t kBlockSteps = 256;
// So many newest steps must stay raw.
inline constexpr int64_t kBlockRawSteps = 2048;

// Makes the block of steps after `last`.
store::StoreBatch BlockAfter(int64_t last);

// Returns the last step of the run in the store; 0: there is none, -1: it cannot be read.
int64_t LastBlockStep(const store::Store& store);

// Checks that every step up to `last` counts once in every series, that the newest steps are raw,
// and that verify finds nothing. Returns what is wrong; empty: nothing.
std::string CheckHoldsBlocks(const store::DiskStore& store, int64_t last);

}  // namespace foreshock::fault
