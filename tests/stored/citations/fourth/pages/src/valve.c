/* The relief valve must never be closed by software. */
#define LIMIT_BAR 16
// Returns zero when the pressure is below the limit.
int check(int bar) { return bar > LIMIT_BAR; }
