/* Dates and times in strings. What is not plainly one is not sure. */
#include "json_native.h"

#define MIN_MS (-62135596800000)
#define MAX_MS 253402300799999

bool tg_in_years(int64_t ms)
{
    return ms >= MIN_MS && ms <= MAX_MS;
}

/* `count` digits as a number, or -1. */
static inline int digits(text p, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if ((uint8_t)(p[i] - '0') > 9)
            return -1;
        value = value * 10 + (p[i] - '0');
    }
    return value;
}

/* Days since 1970-01-01, in the calendar that Python's datetime has. */
static bool days_since(int year, int month, int day, int32_t *days)
{
    static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const int16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    if (year < 1 || month < 1 || month > 12)
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day < 1 || day > lengths[month - 1] + (leap && month == 2))
        return false;
    int last = year - 1; /* whole years since 0001-01-01, a Monday 719162 days before 1970 */
    *days = last * 365 + last / 4 - last / 100 + last / 400 + before[month - 1] + (leap && month > 2) + day - 1 - 719162;
    return true;
}

/* YYYY-MM-DD */
static text calendar_date(text p, int32_t *days)
{
    int year = digits(p, 4), month, day;
    if (year < 0 || p[4] != '-' || (month = digits(p + 5, 2)) < 0 || p[7] != '-' || (day = digits(p + 8, 2)) < 0)
        return NULL;
    return days_since(year, month, day, days) ? p + 10 : NULL;
}

/* Behind the sign: HH, HHMM or HH:MM. */
static text offset_from_utc(text p, bool minutes_too, int *seconds)
{
    int hours = digits(p, 2), minutes = 0;
    if (hours < 0 || hours > 23)
        return NULL;
    p += 2;
    if (minutes_too || *p != '"') {
        p += *p == ':';
        if ((minutes = digits(p, 2)) < 0 || minutes > 59)
            return NULL;
        p += 2;
    }
    *seconds = hours * 3600 + minutes * 60;
    return p;
}

text tg_date(text p, int32_t *days)
{
    p = calendar_date(p, days);
    return p && *p == '"' ? p + 1 : NULL;
}

text tg_iso_micros(text p, int64_t *micros)
{
    int32_t days;
    int hour, minute, second = 0, offset = 0;
    int64_t fraction = 0;
    if (!(p = calendar_date(p, &days)) || (*p != 'T' && *p != ' '))
        return NULL;
    if ((hour = digits(p + 1, 2)) < 0 || hour > 23 || p[3] != ':' || (minute = digits(p + 4, 2)) < 0 || minute > 59)
        return NULL;
    p += 6;
    if (*p == ':') {
        if ((second = digits(p + 1, 2)) < 0 || second > 59)
            return NULL;
        p += 3;
        if (*p == '.') {
            int count = 0;
            for (p++; (uint8_t)(*p - '0') < 10; p++, count++)
                if (count < 6)
                    fraction = fraction * 10 + (*p - '0');
            if (count < 1 || count > 9)
                return NULL;
            for (; count < 6; count++)
                fraction *= 10;
        }
    }
    if (*p == 'Z') {
        p++;
    } else if (*p == '+' || *p == '-') {
        bool west = *p == '-';
        if (!(p = offset_from_utc(p + 1, false, &offset)))
            return NULL;
        offset = west ? -offset : offset;
    }
    if (*p != '"')
        return NULL;
    int64_t seconds = (int64_t)days * 86400 + hour * 3600 + minute * 60 + second - offset;
    *micros = seconds * 1000000 + fraction;
    return tg_in_years(tg_floor_divide(*micros, 1000)) ? p + 1 : NULL;
}

/* English names in either case, whole or by their first three letters; no name begins another one. */
static int name(text *p, const char *const names[], int count, bool whole)
{
    for (int i = 0; i < count; i++) {
        int n = 0, end = whole ? (int)strlen(names[i]) : 3;
        while (n < end && ((*p)[n] | 0x20) == names[i][n])
            n++;
        if (n == end) {
            *p += n;
            return i;
        }
    }
    return -1;
}

/* Two digits, or one before something else; where a space stands before it, another one may. */
static int short_number(text *p, bool padded)
{
    int value = digits(*p, 2);
    if (LIKELY(value >= 0)) {
        *p += 2;
        return value;
    }
    if (padded && **p == ' ' && digits(*p + 2, 1) < 0)
        (*p)++;
    value = digits(*p, 1);
    (*p)++;
    return value;
}

/* Whatever else strptime takes is not sure. */
text tg_pattern_ms(text p, text pattern, text pattern_end, int64_t *ms)
{
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, micros = 0, offset = 0;
    static const char *const months[] = {"january", "february", "march", "april", "may", "june", "july", "august",
                                         "september", "october", "november", "december"};
    static const char *const weekdays[] = {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday",
                                           "sunday"};
    int32_t days;
    bool padded = false; /* a space stands before */
    for (; pattern < pattern_end; pattern++) {
        if (*pattern != '%') {
            p += *pattern == '/' && *p == '\\'; /* many writers escape it */
            if (*p++ != *pattern)
                return NULL;
            padded = *pattern == ' ';
            continue;
        }
        switch (*++pattern) {
        case 'Y': year = digits(p, 4); p += 4; break;
        case 'm': month = short_number(&p, padded); break;
        case 'b': month = name(&p, months, 12, false) + 1; break; /* 0 is no month */
        case 'B': month = name(&p, months, 12, true) + 1; break;
        case 'd': day = short_number(&p, padded); break;
        case 'a': case 'A': /* which one it is does not matter to strptime either */
            if (name(&p, weekdays, 7, *pattern == 'A') < 0)
                return NULL;
            break;
        case 'H': hour = short_number(&p, padded); break;
        case 'M': minute = short_number(&p, padded); break;
        case 'S': second = short_number(&p, padded); break;
        case 'f': {
            int count = 0;
            for (; count < 6 && (uint8_t)(*p - '0') < 10; count++)
                micros = micros * 10 + (*p++ - '0');
            if (!count)
                return NULL;
            for (; count < 6; count++)
                micros *= 10;
            break;
        }
        case 'z':
            if (*p == 'Z') {
                p++;
            } else if (*p == '+' || *p == '-') {
                bool west = *p == '-';
                if (!(p = offset_from_utc(p + 1, true, &offset)))
                    return NULL;
                offset = west ? -offset : offset;
            } else {
                return NULL;
            }
            break;
        default: return NULL;
        }
        if ((year | month | day | hour | minute | second) < 0)
            return NULL;
        padded = false;
    }
    if (*p != '"' || hour > 23 || minute > 59 || second > 59 || !days_since(year, month, day, &days))
        return NULL;
    int64_t seconds = (int64_t)days * 86400 + hour * 3600 + minute * 60 + second - offset;
    *ms = tg_floor_divide(seconds * 1000000 + micros, 1000);
    return tg_in_years(*ms) ? p + 1 : NULL;
}
