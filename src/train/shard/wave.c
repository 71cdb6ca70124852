/* wave.c — see wave.h. */
#include "src/train/shard/wave.h"

tt_wave_list tt_wave_list_of(const tt_slice *slice, int64_t cohorts, int64_t members)
{
  int64_t all = 0;
  for (int64_t i = 0; i < cohorts; i++) all += slice[i].count;
  if (members < 1 || members >= all) return (tt_wave_list){all > 0 ? all : 1, 1};
  return (tt_wave_list){members, (all + members - 1) / members};
}

tt_slice tt_wave_slice(const tt_wave_list *list, const tt_slice *slice, int64_t cohort,
                       int64_t wave)
{
  int64_t first = wave * list->members;
  for (int64_t i = 0; i < cohort; i++) first -= slice[i].count;
  tt_slice range = tt_slice_intersect((tt_slice){first, list->members}, 0, slice[cohort].count);
  return (tt_slice){slice[cohort].first + range.first, range.count};
}
