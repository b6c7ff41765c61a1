#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct arguments DEFAULT = {
    .extent = {16, 16, 16, 32},
    .kappa = 0.12,
    .drawing = {.seed = 1, .roughness = 0.25},
    .goal = {.iterations = 0, .most = 1000, .tolerance = 1e-5},
};

static char trouble[300];

/* Parses a number at the beginning of a text, without sign or space. */
static const char *whole_number(const char *text, unsigned long long *number) {
    char *end;
    if (!isdigit((unsigned char)*text))
        return NULL;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 ? end : NULL;
}

/* Parses exactly `count` numbers separated by x; values too large for the lattice stay too
 * large. */
static int extents(const char *text, int *numbers, int count) {
    for (int i = 0; i < count; i++) {
        unsigned long long number;
        if (i > 0 && *text++ != 'x')
            return 0;
        text = whole_number(text, &number);
        if (!text)
            return 0;
        numbers[i] = number > 1000000 ? 1000000 : (int)number;
    }
    return *text == '\0';
}

static int whole(const char *text, int least, int most, int *number) {
    unsigned long long value;
    const char *end = whole_number(text, &value);
    if (!end || *end != '\0' || value < (unsigned long long)least || value > (unsigned long long)most)
        return 0;
    *number = (int)value;
    return 1;
}

static int real(const char *text, double above, double most, double *number) {
    char *end;
    if (!isdigit((unsigned char)*text))
        return 0;
    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || *end != '\0' || !isfinite(value) || value < above || value > most)
        return 0;
    *number = value;
    return 1;
}

static int is(const char *word, const char *name, const char **value) {
    size_t length = strlen(name);
    if (strncmp(word, name, length) != 0 || word[length] != '=')
        return 0;
    *value = word + length + 1;
    return 1;
}

/* Returns NULL, or a description of the expected value. */
static const char *take(struct arguments *arguments, const char *word) {
    const char *value;
    if (is(word, "lattice", &value))
        return extents(value, arguments->extent, DIMENSIONS) ? NULL : "lattice is four extents, as 16x16x16x32";
    if (is(word, "split", &value)) {
        int ok = extents(value, arguments->parts + Z, 2) && arguments->parts[Z] > 0 && arguments->parts[T] > 0;
        return ok ? NULL : "split is how many processes z and t are dealt out to, as 2x4";
    }
    if (is(word, "kappa", &value))
        return real(value, 1e-6, 0.25, &arguments->kappa) ? NULL : "kappa is a number from 0.000001 to 0.25";
    if (is(word, "roughness", &value))
        return real(value, 0, 1, &arguments->drawing.roughness) ? NULL : "roughness is a number from 0, unit links, to 1";
    if (is(word, "seed", &value)) {
        unsigned long long seed;
        const char *end = whole_number(value, &seed);
        arguments->drawing.seed = end ? seed : 0;
        return end && *end == '\0' ? NULL : "seed is a whole number below 2^64";
    }
    if (is(word, "iterations", &value))
        return whole(value, 0, 1000000, &arguments->goal.iterations) ? NULL : "iterations is a number up to 1000000; 0 for as many as it takes";
    if (is(word, "most", &value))
        return whole(value, 1, 1000000, &arguments->goal.most) ? NULL : "most is a number of iterations from 1 to 1000000";
    if (is(word, "tolerance", &value))
        return real(value, 1e-6, 1, &arguments->goal.tolerance) ? NULL : "tolerance is a number from 0.000001, as fields are single precision, to 1";
    return "known are lattice, split, kappa, roughness, seed, iterations, most and tolerance, each as NAME=VALUE";
}

const char *arguments_read(struct arguments *arguments, int count, char **words) {
    *arguments = DEFAULT;
    for (int i = 1; i < count; i++) {
        const char *right = take(arguments, words[i]);
        if (right) {
            char shown[80];
            snprintf(shown, sizeof shown, "%s", words[i]);
            for (char *at = shown; *at; at++)
                *at = isprint((unsigned char)*at) ? *at : '?';
            snprintf(trouble, sizeof trouble, "\"%s\": %s", shown, right);
            return trouble;
        }
    }
    return NULL;
}

int arguments_are_default(const struct arguments *arguments) {
    const struct goal *goal = &arguments->goal, *usual = &DEFAULT.goal;
    return memcmp(arguments->extent, DEFAULT.extent, sizeof DEFAULT.extent) == 0 && arguments->kappa == DEFAULT.kappa &&
           arguments->drawing.seed == DEFAULT.drawing.seed && arguments->drawing.roughness == DEFAULT.drawing.roughness &&
           goal->iterations == usual->iterations && goal->tolerance == usual->tolerance;
}
