/* Parses the plan as written by the suite: NAME=VALUE words. Unknown names and trailing
 * characters in numbers are errors. */
#include "suite.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse(const char *word, const char *why) {
    fprintf(stderr, "cannot use %s: %s\n", word, why);
    return -1;
}

static int number(const char *word, const char *text, double *value) {
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(*value >= 0))
        return refuse(word, "not a number from 0 up");
    return 0;
}

static int whole(const char *word, const char *text, long *value) {
    double read;
    if (number(word, text, &read) != 0)
        return -1;
    if (read > INT_MAX)
        return refuse(word, "too large");
    *value = (long)read;
    return 0;
}

static int sizes(struct plan *plan, const char *word, const char *text) {
    for (const char *at = text; *at != '\0'; at += *at == ',') {
        char *end;
        errno = 0;
        unsigned long long size = strtoull(at, &end, 10);
        if (end == at || (*end != '\0' && *end != ',') || errno != 0 || size > INT_MAX)
            return refuse(word, "not a list of sizes up to 2147483647");
        if (plan->size_count == MOST_SIZES)
            return refuse(word, "more than 64 sizes");
        plan->sizes[plan->size_count++] = size;
        at = end;
    }
    return 0;
}

static int processors(struct plan *plan, const char *word, const char *text) {
    for (const char *at = text; *at != '\0'; at += *at == ',') {
        char *end;
        unsigned long processor = strtoul(at, &end, 10);
        if (end == at || (*end != '\0' && *end != ',') || processor >= MOST_PROCESSORS)
            return refuse(word, "not a list of processors below 1024");
        if (plan->processor_count == MOST_PROCESSORS)
            return refuse(word, "more than 1024 processors");
        plan->processors[plan->processor_count++] = (int)processor;
        at = end;
    }
    return 0;
}

static int entry(struct plan *plan, const char *word, const char *value) {
    const struct {
        const char *name;
        double *number;
    } numbers[] = {
        {"warmup", &plan->warmup},       {"block", &plan->block},         {"target", &plan->target},
        {"tail-time", &plan->tail_time}, {"rate-block", &plan->rate_block}, {"nanos-per-tick", &plan->nanos_per_tick},
    };
    const struct {
        const char *name;
        long *number;
    } counts[] = {
        {"blocks", &plan->blocks}, {"most", &plan->most}, {"tail", &plan->tail}, {"rate-blocks", &plan->rate_blocks},
    };
    size_t length = (size_t)(value - word) - 1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strlen(numbers[i].name) == length && strncmp(word, numbers[i].name, length) == 0)
            return number(word, value, numbers[i].number);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (strlen(counts[i].name) == length && strncmp(word, counts[i].name, length) == 0)
            return whole(word, value, counts[i].number);
    if (strncmp(word, "benchmark=", 10) == 0) {
        plan->benchmark = value;
        return 0;
    }
    if (strncmp(word, "sizes=", 6) == 0)
        return sizes(plan, word, value);
    if (strncmp(word, "processors=", 11) == 0)
        return processors(plan, word, value);
    return refuse(word, "nothing of a plan is called so");
}

int plan_read(struct plan *plan, int count, char **words) {
    for (int i = 0; i < count; i++) {
        const char *value = strchr(words[i], '=');
        if (value == NULL)
            return refuse(words[i], "not of the form NAME=VALUE");
        if (entry(plan, words[i], value + 1) != 0)
            return -1;
    }
    if (plan->benchmark == NULL || plan->size_count == 0)
        return refuse("the plan", "it names no benchmark or no size");
    if (plan->blocks < 1 || plan->rate_blocks < 1 || plan->most < 10)
        return refuse("the plan", "it leaves nothing to measure");
    return 0;
}
