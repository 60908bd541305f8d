// The few indicators that stand for a run at a glance, in the live rows of `replay --watch` and in
// `top`.
#pragma once

namespace foreshock::cli {

// Which series stand for the run: the one of the whole run (not those of single ranks), or the
// layer with the lowest or highest mean over its heads.
enum class Pick { kWholeRun, kLowestLayer, kHighestLayer };

struct Headline {
  const char* title;
  const char* indicator;
  Pick pick;
  int width;  // columns of its cell in a live row
};

inline constexpr Headline kHeadlines[] = {
    {"loss", "train.loss", Pick::kWholeRun, 8},
    {"grad norm", "train.grad_norm", Pick::kWholeRun, 9},
    {"QK entropy", "attn.delta2.entropy_ratio_l1", Pick::kLowestLayer, 12},
    {"QK norm", "attn.delta2.relative_norm", Pick::kHighestLayer, 12},
    {"logit max", "attn.logits.max", Pick::kHighestLayer, 11},
    {"router entropy", "router.token_entropy_ratio", Pick::kLowestLayer, 14},
    {"load entropy", "load.entropy_ratio", Pick::kLowestLayer, 12},
};

}  // namespace foreshock::cli
