/* Frequent short words of languages, for texts too short for CLD2's n-grams. */
#include <string.h>
#include "serve/detect.h"

/* Function words and greetings. A word of several lists counts less for each. */
static const struct {
    const char *code, *words;
} FREQUENT[] = {
    {"en",
     " the a an and of to in is are was were it that this i you he she we they not do does have has with for on at "
     "my your his her where what who how why when can will would no yes hello thank thanks please good morning "
     "don't i'm it's be from there me him us wrong here "},
    {"de",
     " der die das den dem des ein eine einen einem und ist sind war ich du er sie es wir ihr nicht kein keine mit "
     "für auf zu im am von wo was wer wie warum wann mein meine dein sein haben hat habe bin bist ja nein hallo "
     "danke bitte guten tag morgen gut auch noch schon nur heute mir mich dir dich uns hier "},
    {"fr",
     " le la les un une des du de et est sont je tu il elle nous vous ils ne pas que qui où quoi avec pour dans sur "
     "au aux mon ma mes ton sa son ce cette c'est j'ai bonjour merci oui non très bien comment salut moi toi mot "
     "n'est qu'il d'un d'une votre été ça "},
    {"it",
     " il lo la gli i un una di e è sono io tu lei noi non che chi dove cosa con per in sul nel della del dei mio mia "
     "tua tuo sua suo ho hai ha abbiamo ciao buongiorno grazie sì no come stai questo questa sei bene anche si "
     "ti amo più nella alla al dov'è c'è "},
    {"es",
     " el la los las un una de y es son yo tú él ella nosotros no que quién dónde qué con por para en del al mi mis "
     "tu su está estás estoy hola gracias buenos buenas sí cómo muy lo se este esta pero más días usted favor "
     "hay como come "},
    {"pt",
     " o a os as um uma de e é são eu tu ele ela nós não que quem onde com por para em no na do da meu minha seu sua "
     "está estou olá obrigado obrigada bom boa sim muito você isso dia fica eles mais como "},
    {"nl",
     " de het een en is zijn ik jij je hij zij wij niet geen dat die met voor op te van in waar wat wie hoe mijn jouw "
     "ben hebben heeft heb ja nee hallo dank dag goedemorgen goed ook naar aan wel er u "},
    {"sv",
     " en ett och är jag du han hon vi ni inte det att som med för på av till den var vad vem hur min din har hej "
     "tack ja nej god morgon så mycket kan ska vet mig dig här "},
    {"da",
     " en et og er jeg du han hun vi ikke det at som med for på af til den hvor hvad hvem hvordan min din har hej "
     "tak ja nej god morgen meget kan skal ved mig dig af her "},
    {"no", " en et og er jeg du han hun vi ikke det at som med for på av til den hvor hva hvem hvordan min din har hei "
           "takk ja nei god morgen veldig kan skal vet meg deg her "},
    {"fi",
     " ja on ei en minä sinä hän me se että mutta kun mitä missä kuka miten olen olet ovat hei kiitos kyllä hyvää "
     "huomenta tämä niin nyt vain myös oli "},
    {"pl",
     " i w na z do nie jest są to że się ja ty on ona my co gdzie kto jak mój moja mam masz cześć dziękuję tak dzień "
     "dobry proszę o po dla ale jestem czy wiem "},
    {"cs",
     " a v na s z do ne je jsou to že se já ty on ona my co kde kdo jak můj moje mám máš ahoj děkuji ano dobrý den "
     "prosím o po pro ale jsem nevím "},
    {"sk",
     " a v na s z do nie je sú to že sa ja ty on ona my čo kde kto ako môj moja mám máš ahoj ďakujem áno dobrý deň "
     "prosím o po pre ale som neviem "},
    {"hu",
     " a az és egy nem van én te ő mi hogy mit hol ki de is ez szia köszönöm igen jó reggelt kérem vagyok meg csak "
     "napot "},
    {"ro", " și în nu este sunt un o de la cu pe eu tu el ea noi ce unde cine cum meu mea am ai bună ziua mulțumesc da "
           "pentru dar din că mai "},
    {"tr",
     " ve bir bu ne ben sen o biz değil var yok için ile da de mi nerede kim nasıl merhaba teşekkürler evet hayır "
     "günaydın iyi çok ama bilmiyorum "},
    {"id", " yang dan di ini itu saya kamu anda dia kami tidak ada untuk dengan ke dari apa siapa mana bagaimana halo "
           "terima kasih ya selamat pagi akan bisa tahu "},
    {"hr", " i u na s z do ne je su to da se ja ti on ona mi što gdje tko kako moj moja imam bok hvala dobar dan molim "
           "za ali sam "},
    {"vi",
     " tôi bạn là và của không có gì ở đâu cảm ơn xin chào này một người được với cho những vâng rất thế nào ai khi "},
    {"ca", " el la els les un una de i és són jo tu no que qui on què amb per en del al meu gràcies bon dia sí molt "
           "està estàs "},
    {"ru", " и в не на я ты он она мы вы что где кто как это с по к у но да нет мой моя привет спасибо здравствуйте "
           "доброе утро меня есть "},
    {"uk", " і в у не на я ти він вона ми ви що де хто як це з по до але так ні мій моя привіт дякую доброго дня ранку "
           "мене є "},
    {"bg", " и в не на аз ти той тя ние вие що къде кой как това с по до но да мой моя здравей благодаря добро утро "
           "съм е са "},
    {"sr", " и у не на ја ти он она ми ви шта где ко како то с по до али да мој моја здраво хвала добро јутро сам је "},
};

uint64_t serve_frequent_word(const char *word) {
    char between[64];
    uint64_t of = 0;
    const int bytes = snprintf(between, sizeof(between), " %s ", word);
    for (size_t i = 0; bytes < (int)sizeof(between) && i < CLI_COUNT(FREQUENT); i++)
        of |= (uint64_t)(strstr(FREQUENT[i].words, between) != NULL) << i;
    return of;
}

const char *serve_frequent_language(size_t i) {
    return i < CLI_COUNT(FREQUENT) ? FREQUENT[i].code : NULL;
}
