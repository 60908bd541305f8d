#define GRAM_NAME GramV4
#define GRAM_TOGETHER 2
#define GRAM_ROWS 4
#define GRAM_COLUMNS 4
#include "proxy/gram.inc"
