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

/* YYYY-MM-DD as days since 1970-01-01, in the calendar that Python's datetime has. */
static text calendar_date(text p, int32_t *days)
{
    static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const int16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int year = digits(p, 4), month, day;
    if (year < 1 || p[4] != '-' || (month = digits(p + 5, 2)) < 1 || month > 12 || p[7] != '-')
        return NULL;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    day = digits(p + 8, 2);
    if (day < 1 || day > lengths[month - 1] + (leap && month == 2))
        return NULL;
    int last = year - 1; /* whole years since 0001-01-01, a Monday 719162 days before 1970 */
    *days = last * 365 + last / 4 - last / 100 + last / 400 + before[month - 1] + (leap && month > 2) + day - 1 - 719162;
    return p + 10;
}

text tg_date(text p, int32_t *days)
{
    p = calendar_date(p, days);
    return p && *p == '"' ? p + 1 : NULL;
}

text tg_iso_micros(text p, int64_t *micros)
{
    int32_t days;
    int hour, minute, second = 0;
    int64_t fraction = 0, offset = 0;
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
        int hours = digits(p + 1, 2), minutes = 0;
        if (hours < 0 || hours > 23)
            return NULL;
        p += 3;
        if (*p != '"') {
            p += *p == ':';
            if ((minutes = digits(p, 2)) < 0 || minutes > 59)
                return NULL;
            p += 2;
        }
        offset = (west ? -60 : 60) * (hours * 60 + minutes);
    }
    if (*p != '"')
        return NULL;
    int64_t seconds = (int64_t)days * 86400 + hour * 3600 + minute * 60 + second - offset;
    *micros = seconds * 1000000 + fraction;
    return tg_in_years(tg_floor_divide(*micros, 1000)) ? p + 1 : NULL;
}
