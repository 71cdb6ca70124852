/* call.c — see call.h. */
#include "src/api/call.h"

void tt_call_begin(tt_call *caller)
{
  caller->floating = tt_floating_begin();
  caller->locale = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

int tt_call_end(const tt_call *caller, tt_err e)
{
  locale_t used = uselocale(caller->locale);
  if (used != caller->locale) freelocale(used); /* equal if newlocale failed */
  if (!e) tt_err_clear();
  tt_floating_end(caller->floating);
  return tt_err_exit_code(e);
}
