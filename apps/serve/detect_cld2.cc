// The language of a text, by CLD2.
#include <stdio.h> // its header needs it
#include <string.h>
#include <cld2/public/compact_lang_det.h>

// serve.h is C11, which C++ cannot include; this is what it says.
extern "C" {
struct serve_guess {
    char code[32];
    double confidence;
};
enum { SERVE_GUESSES = 3 };
static const size_t MOST = 1 << 16; // bytes that are looked at
bool serve_detect_there(void);
int serve_detect_text(serve_guess out[SERVE_GUESSES], const char *text, size_t bytes);

bool serve_detect_there(void) {
    return true;
}

int serve_detect_text(serve_guess out[SERVE_GUESSES], const char *text, size_t bytes) {
    CLD2::Language languages[3];
    int percents[3], text_bytes = 0, count = 0;
    bool reliable = false;
    CLD2::DetectLanguageSummary(text, static_cast<int>(bytes < MOST ? bytes : MOST), true, languages, percents,
                                &text_bytes, &reliable);
    for (int i = 0; i < 3; i++) {
        if (languages[i] == CLD2::UNKNOWN_LANGUAGE || percents[i] <= 0)
            continue;
        snprintf(out[count].code, sizeof(out[count].code), "%s", CLD2::LanguageCode(languages[i]));
        out[count++].confidence = percents[i];
    }
    return count;
}
}
