#define Eigen EigenSoftmaxV4  // not to be merged with the other set by the linker
#define FORESHOCK_SOFTMAX EigenSoftmaxEntropyV4
#include "tests/bench/eigen_softmax.inc"
