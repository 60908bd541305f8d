// Numbered batches, each with rows of every kind, and the check that exactly the first N of them
// are in a store: none missing, none twice, none in part.
//
//   for (int64_t n = 1; n <= 10; ++n) ASSERT_OK(store->Write(NumberedBatch(n, 0)));
//   EXPECT_EQ(CheckHoldsExactly(*store, 10), "");
#pragma once

#include <cstdint>
#include <string>

#include "daemon/store/store.h"

namespace foreshock::fault {

inline constexpr char kNumberedRun[] = "numbered";

// Batch `n` (from 1) closes step n, adds report n, settles step n - 3 and moves the marks of the
// rank and the attempt to n. Every tenth batch adds a series. An alert holds `ballast_bytes` that
// do not compress.
store::StoreBatch NumberedBatch(int64_t n, size_t ballast_bytes);

// Returns the number of the last batch by its rank's mark; 0: none, -1: it cannot be read.
int64_t LastBatch(const store::Store& store);

// Returns what is wrong; empty: nothing.
std::string CheckHoldsExactly(const store::Store& store, int64_t batches);

}  // namespace foreshock::fault
