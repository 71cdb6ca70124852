/* number.c — decimal numbers, correctly rounded; see table_internal.h.
 *
 * strtod of glibc takes about 100 ns for the 16 or 17 digits that programs write; most numbers need
 * one multiplication or division of two exact factors (Clinger, PLDI 1990), in long double where
 * that has 64 bits. */
#include "io/table/table_internal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { MAX_DIGITS = 19, MAX_TEXT = 1024, MAX_EXPONENT = 100000 };

typedef struct decimal_number {
  uint64_t digits;
  int count;    /* of significant digits */
  int exponent; /* value = digits * 10^exponent */
  int negative;
} decimal_number;

static int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

static const char *read_digits(const char *p, decimal_number *n, int is_fraction)
{
  for (; is_digit(*p); p++) {
    if (n->count < MAX_DIGITS) {
      n->digits = n->digits * 10 + (uint64_t)(*p - '0');
      n->count += n->digits != 0;
      n->exponent -= is_fraction;
    } else {
      n->count = MAX_DIGITS + 1;
    }
  }
  return p;
}

/* The exponent after e or E; p itself if there is none. */
static const char *read_exponent(const char *p, decimal_number *n)
{
  if (*p != 'e' && *p != 'E') return p;
  const char *cursor = p + 1;
  int negative = *cursor == '-', power = 0;
  if (*cursor == '+' || *cursor == '-') cursor++;
  if (!is_digit(*cursor)) return NULL;
  for (; is_digit(*cursor); cursor++)
    if (power < MAX_EXPONENT) power = power * 10 + (*cursor - '0');
  n->exponent += negative ? -power : power;
  return cursor;
}

/* 1 and *out, if two exact factors decide the nearest double. */
static int from_exact_factors(const decimal_number *n, double *out)
{
  static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  int e = n->exponent;
  if (n->digits >> 53 || e < -22 || e > 22) return 0;
  *out = e < 0 ? (double)n->digits / power[-e] : (double)n->digits * power[e];
  return 1;
}

/* The same with factors of 64 bits. The result is rounded twice, which is right unless the first
 * rounding gives exactly the middle of two doubles. */
static int from_wide_factors(const decimal_number *n, double *out)
{
#if LDBL_MANT_DIG == 64
  static const long double power[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                      1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                      1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                      1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
  int e = n->exponent;
  uint64_t bits;
  if (e < -27 || e > 27) return 0;
  long double wide = e < 0 ? (long double)n->digits / power[-e] : (long double)n->digits * power[e];
  memcpy(&bits, &wide, sizeof bits);
  if ((bits & 0x7FF) == 0x400) return 0;
  *out = (double)wide;
  return 1;
#else
  (void)n, (void)out;
  return 0;
#endif
}

/* With the library, from a copy that ends in NUL and has a point. */
static int from_text(const char *p, size_t length, char decimal, double *out)
{
  char text[MAX_TEXT];
  if (length >= sizeof text) return 0;
  memcpy(text, p, length);
  text[length] = '\0';
  char *point = memchr(text, decimal, length);
  if (point) *point = '.';
  *out = strtod(text, NULL);
  return 1;
}

const char *tt_number_parse(const char *p, char decimal, double *out)
{
  decimal_number n = {.negative = *p == '-'};
  const char *begin = p + (*p == '-' || *p == '+');
  const char *end = read_digits(begin, &n, 0);
  int64_t digits = end - begin;
  if (*end == decimal) {
    const char *fraction = end + 1;
    end = read_digits(fraction, &n, 1);
    digits += end - fraction;
  }
  if (!digits) return NULL;
  const char *after = read_exponent(end, &n);
  if (!after) return NULL;
  int known = n.count <= MAX_DIGITS &&
              (n.count == 0 || from_exact_factors(&n, out) || from_wide_factors(&n, out));
  if (known && n.count == 0) *out = 0;
  if (!known && !from_text(begin, (size_t)(after - begin), decimal, out)) return NULL;
  if (n.negative) *out = -*out;
  return after;
}

int tt_truth_parse(const char *text, double *out)
{
  static const char *const word[] = {"false", "true", "False", "True", "FALSE", "TRUE"};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (!strcmp(text, word[i])) return *out = (double)(i & 1), 1;
  return 0;
}

int tt_infinity_parse(const char *text, double *out)
{
  const char *word = text + (*text == '-' || *text == '+');
  *out = *text == '-' ? -INFINITY : INFINITY;
  return !strcasecmp(word, "inf") || !strcasecmp(word, "infinity");
}

int tt_text_is_date(const char *text)
{
  size_t first = strspn(text, "0123456789");
  if (!first || first > 4 || !text[first] || !strchr("-/.:", text[first])) return 0;
  size_t second = strspn(text + first + 1, "0123456789");
  const char *after = text + first + 1 + second;
  if (!second || second > 2) return 0;
  return text[first] == ':' ? !*after || *after == ':' : *after == text[first] && after[1];
}

/* Days from 1970-01-01 to a day of the Gregorian calendar, and the day of the year, from 0. Returns
 * 0 if there is no such day; timegm then takes another one. */
static int find_day(int year, int month, int day, double *days, int *of_year)
{
  struct tm t = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
  *days = (double)timegm(&t) / 86400.0;
  *of_year = t.tm_yday;
  return year > 0 && t.tm_mon == month - 1 && t.tm_mday == day;
}

/* Two digits at *p and a byte of `after` behind them, or the end; -1: something else. */
static int two_digits(const char **p, const char *after)
{
  const char *t = *p;
  if (strspn(t, "0123456789") < 2 || (t[2] && !strchr(after, t[2]))) return -1;
  *p = t + 2;
  return 10 * (t[0] - '0') + t[1] - '0';
}

/* "12:30", "12:30:15.5", with or without "Z" or "+01:00", as a part of a day. */
static int parse_time(const char *p, double *out)
{
  double second = 0.0;
  int hour = two_digits(&p, ":"), minute = *p++ == ':' ? two_digits(&p, ":Z+-") : -1, zone = 0;
  if (hour < 0 || minute < 0 || minute > 59 || 60 * hour + minute > 24 * 60) return 0;
  if (*p == ':' && (p = tt_number_parse(p + 1, '.', &second)) == NULL) return 0;
  if (*p == '+' || *p == '-') {
    int sign = *p++ == '+' ? -1 : 1, hours = two_digits(&p, ":0123456789");
    p += *p == ':';
    int minutes = *p ? two_digits(&p, "") : 0;
    if (hours < 0 || minutes < 0) return 0;
    zone = sign * (60 * hours + minutes);
  } else if (*p == 'Z') {
    p++;
  }
  *out = (60.0 * (60.0 * hour + minute + zone) + second) / 86400.0;
  return !*p && second >= 0.0 && second < 61.0;
}

int tt_date_parse(const char *text, double out[3])
{
  const char *p = text + 5;
  double days, next_year, time = 0.0;
  int of_year, first;
  if (strspn(text, "0123456789") != 4 || text[4] != '-') return 0;
  int year = (int)strtol(text, NULL, 10), month = two_digits(&p, "-");
  int day = month > 0 && *p++ == '-' ? two_digits(&p, "T ") : -1;
  if (day < 0 || !find_day(year, month, day, &days, &of_year)) return 0;
  if (*p && !parse_time(p + 1, &time)) return 0;
  find_day(year + 1, 1, 1, &next_year, &first);
  double length = next_year - (days - of_year);
  double turn = 2.0 * 3.14159265358979323846 * (of_year + time) / length;
  out[0] = days + time;
  out[1] = sin(turn);
  out[2] = cos(turn);
  return 1;
}
