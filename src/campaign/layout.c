/* layout.c — see layout.h. */
#include "campaign/layout.h"
