#define GRAM_NAME GramV3
#define GRAM_TOGETHER 1
#define GRAM_ROWS 4
#define GRAM_COLUMNS 2
#include "proxy/gram.inc"
