/* Blocks of 32 x 32 accumulators by AMX tiles of 16 rows of 64 bytes. An instruction multiplies a tile of 16 rows by
 * one of 16 columns and adds to 16 x 16 sums of 32 bits, in 16 cycles. A block is four of those, so each loaded tile is
 * used twice.
 *
 * Inline assembly: compilers assemble the instructions without AMX support enabled, and then never use the registers
 * themselves. The system must permit their use: lib/dev/device/capabilities.c. */

/* All eight tiles have 16 rows of 64 bytes; the first byte selects palette 1. */
#define AMX_CONFIGURE()                                                                                                \
    const uint16 shape_ = {1, 0, 0, 0, 0x400040,   0x400040,   0x400040, 0x400040,                                     \
                           0, 0, 0, 0, 0x10101010, 0x10101010, 0,        0};                                           \
    __asm__ volatile("ldtilecfg (%0)" : : "r"(&shape_) : "memory")
#define AMX_RELEASE() __asm__ volatile("tilerelease")

/* NAME: sums (32, 32) += a b, or = if it `begins`; only the upper half of the sums if `rows` are 16 or fewer. a: rows
 * of 64 bytes a step, a_row bytes apart. b: 16 lines of 128 bytes a step, each with four bytes for each of 32 columns.
 */
#define DEFINE_AMX_MATMUL(NAME, INSTRUCTION, SUM, A_SPACE, A, B_SPACE, B)                                              \
    static inline void NAME(SUM *sums, A_SPACE const A *a_, const long a_row, B_SPACE const B *b_, const int steps,    \
                            const int rows, const int begins) {                                                        \
        A_SPACE const char *a = (A_SPACE const char *)a_;                                                              \
        B_SPACE const char *b = (B_SPACE const char *)b_;                                                              \
        char *upper = (char *)sums, *lower = upper + 16 * 128;                                                         \
        if (begins)                                                                                                    \
            __asm__ volatile("tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3" : : : "memory");  \
        else                                                                                                           \
            __asm__ volatile("tileloadd (%0,%2), %%tmm0\n tileloadd 64(%0,%2), %%tmm1\n"                               \
                             "tileloadd (%1,%2), %%tmm2\n tileloadd 64(%1,%2), %%tmm3"                                 \
                             :                                                                                         \
                             : "r"(upper), "r"(lower), "r"(128L)                                                       \
                             : "memory");                                                                              \
        if (rows <= 16)                                                                                                \
            for (int s = 0; s < steps; s++)                                                                            \
                __asm__ volatile("tileloadd (%0,%1), %%tmm4\n tileloadd (%2,%3), %%tmm6\n" INSTRUCTION                 \
                                 " %%tmm6, %%tmm4, %%tmm0\n"                                                           \
                                 "tileloadd 64(%2,%3), %%tmm7\n" INSTRUCTION " %%tmm7, %%tmm4, %%tmm1"                 \
                                 :                                                                                     \
                                 : "r"(a + 64 * s), "r"(a_row), "r"(b + 2048 * s), "r"(128L)                           \
                                 : "memory");                                                                          \
        else                                                                                                           \
            for (int s = 0; s < steps; s++)                                                                            \
                __asm__ volatile(                                                                                      \
                    "tileloadd (%0,%2), %%tmm4\n tileloadd (%3,%4), %%tmm6\n" INSTRUCTION " %%tmm6, %%tmm4, %%tmm0\n"  \
                    "tileloadd 64(%3,%4), %%tmm7\n" INSTRUCTION " %%tmm7, %%tmm4, %%tmm1\n"                            \
                    "tileloadd (%1,%2), %%tmm5\n" INSTRUCTION " %%tmm6, %%tmm5, %%tmm2\n" INSTRUCTION                  \
                    " %%tmm7, %%tmm5, %%tmm3"                                                                          \
                    :                                                                                                  \
                    : "r"(a + 64 * s), "r"(a + 64 * s + 16 * a_row), "r"(a_row), "r"(b + 2048 * s), "r"(128L)          \
                    : "memory");                                                                                       \
        __asm__ volatile("tilestored %%tmm0, (%0,%2)\n tilestored %%tmm1, 64(%0,%2)\n"                                 \
                         "tilestored %%tmm2, (%1,%2)\n tilestored %%tmm3, 64(%1,%2)"                                   \
                         :                                                                                             \
                         : "r"(upper), "r"(lower), "r"(128L)                                                           \
                         : "memory");                                                                                  \
    }
