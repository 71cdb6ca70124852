/* call.c — see call.h. */
#include "src/api/call.h"

tt_call tt_call_begin(void)
{
  tt_floating floating = tt_floating_begin();
  return (tt_call){uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)), floating};
}

int tt_call_end(tt_call caller, tt_err e)
{
  locale_t used = uselocale(caller.locale);
  if (used != caller.locale) freelocale(used); /* equal if newlocale failed */
  if (!e) tt_err_clear();
  tt_floating_end(caller.floating);
  return tt_err_exit_code(e);
}

tt_err tt_call_check_size(const char *type, const char *field, size_t size, size_t least,
                          size_t now)
{
  if (size >= least && size <= now) return TT_OK;
  return TT_FAIL(
      USAGE,
      "%s is %zu; set it to sizeof(%s), which is %zu in the tutti.h of libtutti " TUTTI_VERSION,
      field, size, type, now);
}

tt_err tt_call_check_set(const char *const *set, int nset)
{
  for (int i = 0; i < nset; i++)
    if (!set || !set[i])
      return TT_FAIL(USAGE, "text %d of the %d in set is NULL", set ? i : 0, nset);
  return TT_OK;
}
