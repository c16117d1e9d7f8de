// Language detection by CLD2.
#include <stdio.h> // its header needs it
#include <string.h>
#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>

// A copy of declarations in detect.h, which is C11.
extern "C" {
struct serve_cld2 {
    char code[32];
    double score;
    int percent;
};
enum { SERVE_DETECTIONS = 3 };
int serve_cld2_detect(serve_cld2 out[SERVE_DETECTIONS], const char *text, size_t bytes, const char *hint);

int serve_cld2_detect(serve_cld2 out[SERVE_DETECTIONS], const char *text, size_t bytes, const char *hint) {
    CLD2::Language languages[3];
    double scores[3];
    int percents[3], text_bytes = 0, valid = 0, count = 0;
    bool reliable = false;
    const CLD2::CLDHints hints = {hint, NULL, CLD2::UNKNOWN_ENCODING, CLD2::UNKNOWN_LANGUAGE};
    CLD2::ExtDetectLanguageSummaryCheckUTF8(text, static_cast<int>(bytes), true, &hints, CLD2::kCLDFlagBestEffort,
                                            languages, percents, scores, NULL, &text_bytes, &reliable, &valid);
    for (int i = 0; i < 3; i++) {
        if (languages[i] == CLD2::UNKNOWN_LANGUAGE || percents[i] <= 0)
            continue;
        snprintf(out[count].code, sizeof(out[count].code), "%s", CLD2::LanguageCode(languages[i]));
        out[count].score = scores[i];
        out[count++].percent = percents[i];
    }
    return count;
}
}
