/* kept.c — see h5_internal.h: what a new file keeps open. */
#include "io/hdf5/h5_internal.h"

#include <stdio.h>
#include <string.h>

static herr_t close_slot(tt_h5_open_object *o)
{
  hid_t id = o->id;
  *o = (tt_h5_open_object){.id = 0};
  if (id <= 0) return 0;
  return H5Iget_type(id) == H5I_DATASET ? H5Dclose(id) : H5Oclose(id);
}

/* The slot of an object, or the one that has not been used for the longest time. */
static tt_h5_open_object *slot_of(tt_h5_file *f, const char *path)
{
  tt_h5_open_object *oldest = &f->open[0];
  for (int i = 0; i < TT_H5_OPEN_OBJECTS; i++) {
    tt_h5_open_object *o = &f->open[i];
    if (o->id > 0 && !strcmp(o->path, path)) return o;
    if (o->used < oldest->used) oldest = o;
  }
  close_slot(oldest);
  return oldest;
}

void tt_h5_keep_object(tt_h5_file *f, const char *path, hid_t object)
{
  tt_h5_open_object *o = slot_of(f, path);
  *o = (tt_h5_open_object){.id = object, .used = ++f->uses};
  /* a path that is cut is not found again: the object is opened every time */
  snprintf(o->path, sizeof o->path, "%s", path);
}

hid_t tt_h5_object(tt_h5_file *f, const char *path)
{
  tt_h5_open_object *o = slot_of(f, path);
  hid_t id = o->id > 0 ? o->id : H5Oopen(f->id, tt_h5_object_path(path), H5P_DEFAULT);
  if (id > 0) tt_h5_keep_object(f, path, id);
  return id;
}

herr_t tt_h5_close_object(tt_h5_file *f, const char *path)
{
  herr_t e = 0;
  for (int i = 0; i < TT_H5_OPEN_OBJECTS; i++)
    if ((!path || !strcmp(f->open[i].path, path)) && close_slot(&f->open[i]) < 0) e = -1;
  return e;
}

void tt_h5_close_kept(tt_h5_file *f)
{
  (void)tt_h5_close_object(f, NULL);
  for (int i = 0; i < TT_H5_TYPE_COUNT; i++)
    if (f->creation[i] > 0) H5Pclose(f->creation[i]);
  if (f->transfer > 0) H5Pclose(f->transfer);
  memset(f->creation, 0, sizeof f->creation);
  f->transfer = 0;
}
