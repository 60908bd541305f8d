#define Eigen EigenSoftmaxV3  // not to be merged with the other set by the linker
#define FORESHOCK_SOFTMAX EigenSoftmaxEntropyV3
#include "tests/bench/eigen_softmax.inc"
