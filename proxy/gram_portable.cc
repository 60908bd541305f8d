#define GRAM_NAME GramPortable
#define GRAM_TOGETHER 1
#define GRAM_ROWS 2
#define GRAM_COLUMNS 2
#include "proxy/gram.inc"
