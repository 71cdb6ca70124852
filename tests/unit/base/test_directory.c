/* test_directory.c — files are opened without waiting; what is not a regular file is refused. */
#include "core/base/directory.h"
#include "core/base/json.h"
#include "core/config/config.h"
#include "io/table/table.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char path[] = "odd.txt";

/* Every function that reads a file of other programs. */
static tt_err read_text(void)
{
  char text[64];
  return tt_file_read_text(path, text, sizeof text);
}

static tt_err read_table(void)
{
  tt_table *t = NULL;
  return tt_table_open_local(path, NULL, &t);
}

static tt_err read_json(void)
{
  json_t *object = NULL;
  return tt_json_read_file(path, &object);
}

static tt_err read_job(void)
{
  char *text = NULL;
  int64_t bytes = 0;
  return tt_config_read_file(path, &text, &bytes);
}

static tt_err (*const readers[])(void) = {read_text, read_table, read_json, read_job};

static void all_refuse(const char *kind)
{
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
    alarm(20); /* a reader that waits fails here */
    TT_CHECK((int)readers[i](), ==, TT_E_NOINPUT);
    alarm(0);
    TT_CHECK_HAS(tt_err_last(), path);
    TT_CHECK_HAS(tt_err_last(), kind);
  }
}

TT_SUITE(enter_folder, NULL)

TT_TEST (a_fifo_is_refused_at_once) {
  TT_CHECK(mkfifo(path, 0600), ==, 0);
  all_refuse("is a FIFO, not a regular file");
  TT_CHECK(unlink(path), ==, 0);
}

TT_TEST (a_directory_is_refused) {
  TT_CHECK(mkdir(path, 0700), ==, 0);
  all_refuse("is a directory, not a regular file");
  TT_CHECK(rmdir(path), ==, 0);
}

TT_TEST (a_socket_is_refused) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  TT_CHECK(bind(s, (const struct sockaddr *)&address, sizeof address), ==, 0);
  all_refuse("is a socket, not a regular file");
  close(s);
  TT_CHECK(unlink(path), ==, 0);
}

TT_TEST (a_link_to_a_device_is_refused) {
  TT_CHECK(symlink("/dev/zero", path), ==, 0);
  all_refuse("is a device, not a regular file");
  TT_CHECK(unlink(path), ==, 0);
}

TT_TEST (a_missing_file_is_named) {
  all_refuse("No such file or directory");
}
