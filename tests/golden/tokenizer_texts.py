"""Texts for make_tokenizers.py: training sentences for small vocabularies, and lines that are difficult to tokenize."""

import random

SENTENCES = """The old man walked slowly to the harbour, and the boats weren't there any more.
It's 3.14 km from here; they'll have arrived by 10:45, won't they?
I'm sure that we've seen 1,000,000 of these before (or 12345), haven't we?
Der Fluß fließt über die Felder, und die Bäume blühen schön im März.
Où est passée la forêt ? Elle s'étend déjà au-delà du château, naïve et fraîche.
El niño comió una manzana; ¿dónde está el señor que vendía piñas?
Cô ấy đã đến trường vào buổi sáng và học tiếng Việt rất chăm chỉ.
İstanbul'da güneş doğuyor, çocuklar ışıklı sokaklarda şarkı söylüyor.
Příliš žluťoučký kůň úpěl ďábelské ódy; łódź płynie wzdłuż rzeki.
Старый рыбак вышел в море на рассвете и вернулся только к вечеру.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, είπε ο γέρος κάτω από τον ήλιο.
老人慢慢地走到港口，船已经不在那里了。他们什么时候回来？
私たちは昨日、東京の図書館で古い本とカタログを読みました。
우리는 어제 도서관에서 오래된 책을 읽고 커피를 마셨습니다.
كان الرجل العجوز يمشي ببطء نحو الميناء، ولم تكن السفن هناك ١٢٣.
האיש הזקן הלך לאט אל הנמל, והסירות כבר לא היו שם.
बूढ़ा आदमी धीरे-धीरे बंदरगाह की ओर चला, और नावें वहाँ नहीं थीं।
ชายชราเดินช้าๆไปที่ท่าเรือ แต่เรือไม่อยู่ที่นั่นแล้ว
მოხუცი ნელა მიდიოდა ნავსადგურისკენ, მაგრამ ნავები იქ აღარ იყო.
முதியவர் மெதுவாக துறைமுகத்திற்கு நடந்தார், படகுகள் அங்கு இல்லை.
def encode(text, size=0x1F): return [ord(c) for c in text if c != '\\n'][:size]
""".splitlines()

WORDS = (
    "don't I'm we'll IT'S 'S ŉ naïve cafe\u0301 Å \u212b ﬁ ① Ⅳ ½ x² ｆｕｌｌ 日本語 ひらがな カタカナ ｶﾞ 한국어 ㅎㅏㄴ हिन्दी क्षत्रिय ภาษา กำ "
    "العربية שָׁלוֹם ქართული ΌΣΟΣ Привет 👩\u200d👩\u200d👧\u200d👦 🇫🇷🇩🇪 ❤\ufe0f 🏳\ufe0f\u200d🌈 👍🏽 12345 3.14 1,000 ٣٤٥ १२३ Ⅷ ... !? ¿ — «» „“ _ "
    "__init__ # ## [MASK] [CLS] <mask> <s> </s> <unk> <|end|> <0x0A> the The river water ▁ ▁▁ Ġ Ċ a A é e\u0301\u0301 \u0301 İ ı ß ẞ ǅ ﷺ ㌔ "
    "Ａ \U0001d54f \U00020000 \U0002f800 ſ 's , . harbour do not ー 々 豈 \u1e9b\u0323 \u0344 q\u0307\u0323 \u0600x ﬀ\u0301 क\u093c 한"
).split(" ")
ODD = ["\u200b", "\u200d", "\ufeff", "\u00a0", "\u3000", "\u2028", "\u180e", "\u0085", "\t", "\n", "\r\n", "\r", "  ", "    ",
       "\x01", "\x1f", "\x7f", "\x9f", "\u00ad", "\ufffd", "\U000e0001", "\ue000", "\U0010ffff", "\u0378"]


def hard_lines(count=220, seed=11):
    draw = random.Random(seed)
    lines = ["", " ", "  ", "\n", "\t\t", " a", "a ", "▁", " ▁a", "\u3000", "\u200b", "a" * 120, "é" * 40, "ab " * 30, "日本" * 20,
             " " * 40, "1" * 30, "a\u0301" * 20]
    lines += ["".join(ODD), " ".join(WORDS[:40]), "".join(WORDS[40:])]
    lines += SENTENCES[::3]
    while len(lines) < count:
        line = ""
        for _ in range(draw.randint(1, 6)):
            word = draw.choice(ODD) if draw.random() < 0.15 else draw.choice(WORDS)
            line += draw.choice(["", " ", " ", "  "]) + (word.upper() if draw.random() < 0.1 else word)
        lines.append(line)
    return lines
