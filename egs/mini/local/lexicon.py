# ruff: noqa: E501, SIM905
# fmt: off
"""The words of the mini corpus: tables of English, German and Japanese, and what goes with what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrase:
    """The same words in three languages, not inflected, or (adjectives) inflected by the renderer."""

    en: str
    de: str
    ja: str


@dataclass(frozen=True)
class Noun:
    """kind: its table in NOUNS; agree: the English pronoun, "m", "f", "n" or "p"; counter: Japanese, after numbers."""

    kind: str
    en: str
    en_plural: str
    gender: str
    de: str
    de_plural: str
    ja: str
    ja_polite: str
    counter: str
    agree: str


@dataclass(frozen=True)
class Place:
    """A place: "in" it and "to" it; Japanese without particle."""

    en_in: str
    en_to: str
    de_in: str
    de_to: str
    ja: str


@dataclass(frozen=True)
class Verb:
    """A verb and what goes with it.

    prefix: of a separable verb; third: German "er" form without it; objects: kinds of nouns ("somebody": a person);
    dative: takes a person beside the object; place: a set in PLACE_SETS; subjects: kind of noun, where no person.
    """

    en: str
    past: str
    prefix: str
    inf: str
    third: str
    participle: str
    aux: str
    ja: str
    particle: str = ""
    objects: str = ""
    place: str = ""
    dative: bool = False
    de_prep: str = ""
    case: str = "acc"
    to: bool = False  # English: "explained it to her", not "explained her it"
    at: bool = False  # Japanese: the place takes に
    social: bool = False
    subjects: str = ""

    @property
    def has_direction(self) -> bool:
        return self.place.startswith("to ")


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _phrases(table: str) -> tuple[Phrase, ...]:
    return tuple(Phrase(en, de, ja) for line in table.strip().splitlines() for en, de, ja in _triples(line))


def _triples(line: str) -> list[list[str]]:
    return [[cell.strip() for cell in entry.split("|")] for entry in line.split(";") if entry.strip()]


def _nouns(kind: str, table: str) -> tuple[Noun, ...]:
    """Rows: English singular, plural | German gender singular, plural | Japanese, counter or polite word."""
    nouns = []
    for en, de, ja in _triples(table.replace("\n", ";")):
        (en_one, en_many), (de_one, de_many), (word, extra) = (f"{cell}, ".split(", ")[:2] for cell in (en, de, ja))
        gender, _, german = de_one.partition(" ")
        agree = gender if kind in ("kin", "person") or gender == "p" else "n"
        polite, counter = (extra, "") if kind == "kin" else (word, extra)
        nouns.append(
            Noun(kind, en_one, en_many or en_one * (gender == "p"), gender, german, de_many or german, word, polite,
                 counter, agree)
        )
    return tuple(nouns)


_NOUN_TABLES = {
    "goods": """
        car, cars | n Auto, Autos | 車, 台; bicycle, bicycles | n Fahrrad, Fahrräder | 自転車, 台
        computer, computers | m Computer, Computer | パソコン, 台
        clock, clocks | f Uhr, Uhren | 時計, 個
        umbrella, umbrellas | m Regenschirm, Regenschirme | 傘, 本; suitcase, suitcases | m Koffer, Koffer | スーツケース, 個
        coat, coats | m Mantel, Mäntel | コート, 着; shirt, shirts | n Hemd, Hemden | シャツ, 枚
        picture, pictures | n Bild, Bilder | 絵, 枚; present, presents | n Geschenk, Geschenke | プレゼント, 個
        bag, bags | f Tasche, Taschen | かばん, 個
        table, tables | m Tisch, Tische | テーブル, 台; key, keys | m Schlüssel, Schlüssel | 鍵, 個""",
    "read": """
        book, books | n Buch, Bücher | 本, 冊; letter, letters | m Brief, Briefe | 手紙, 通
        newspaper, newspapers | f Zeitung, Zeitungen | 新聞, 部; report, reports | m Bericht, Berichte | 報告書, 通""",
    "food": """
        apple, apples | m Apfel, Äpfel | りんご, 個; cake, cakes | m Kuchen, Kuchen | ケーキ, 個
        egg, eggs | n Ei, Eier | 卵, 個; potato, potatoes | f Kartoffel, Kartoffeln | じゃがいも, 個
        orange, oranges | f Orange, Orangen | オレンジ, 個""",
    "drink": """
        coffee | m Kaffee | コーヒー; tea | m Tee | お茶; milk | f Milch | 牛乳; water | n Wasser | 水
        wine | m Wein | ワイン""",
    "language": """
        German | n Deutsch | ドイツ語; English | n Englisch | 英語; French | n Französisch | フランス語
        Japanese | n Japanisch | 日本語""",
    "sport": "football | m Fußball | サッカー; tennis | n Tennis | テニス",
    "opening": "door, doors | f Tür, Türen | ドア; window, windows | n Fenster, Fenster | 窓",
    "device": """
        light, lights | n Licht, Lichter | 電気; radio, radios | n Radio, Radios | ラジオ
        heating | f Heizung | 暖房""",
    "room": """
        room, rooms | n Zimmer, Zimmer | 部屋; kitchen, kitchens | f Küche, Küchen | 台所
        office, offices | n Büro, Büros | 事務所""",
    "meal": """
        breakfast, breakfasts | n Frühstück, Frühstücke | 朝食; dinner, dinners | n Abendessen, Abendessen | 夕食
        party, parties | f Feier, Feiern | パーティー""",
    "event": """
        meeting, meetings | f Besprechung, Besprechungen | 会議; course, courses | m Kurs, Kurse | 講座
        lecture, lectures | m Vortrag, Vorträge | 講演""",
    "show": """
        film, films | m Film, Filme | 映画; concert, concerts | n Konzert, Konzerte | コンサート
        game, games | n Spiel, Spiele | 試合""",
    "plan": """
        plan, plans | m Plan, Pläne | 計画; problem, problems | n Problem, Probleme | 問題
        question, questions | f Frage, Fragen | 質問""",
    "vehicle": "train, trains | m Zug, Züge | 電車; bus, buses | m Bus, Busse | バス",
    "house": """
        museum, museums | n Museum, Museen | 博物館; bank, banks | f Bank, Banken | 銀行
        library, libraries | f Bibliothek, Bibliotheken | 図書館; shop, shops | n Geschäft, Geschäfte | 店""",
    "person": """
        doctor, doctors | m Arzt, Ärzte | 医者; teacher, teachers | m Lehrer, Lehrer | 先生
        woman, women | f Frau, Frauen | 女の人; man, men | m Mann, Männer | 男の人
        engineer, engineers | m Ingenieur, Ingenieure | エンジニア; driver, drivers | m Fahrer, Fahrer | 運転手
        nurse, nurses | f Krankenschwester, Krankenschwestern | 看護師
        singer, singers | f Sängerin, Sängerinnen | 歌手; waiter, waiters | m Kellner, Kellner | ウェイター
        guest, guests | m Gast, Gäste | お客さん; boss, bosses | m Chef, Chefs | 上司
        children | p Kinder | 子供たち; pupils | p Schüler | 生徒たち""",
    "kin": """
        mother, mothers | f Mutter, Mütter | 母, お母さん; father, fathers | m Vater, Väter | 父, お父さん
        sister, sisters | f Schwester, Schwestern | 妹, 妹さん; brother, brothers | m Bruder, Brüder | 兄, お兄さん
        aunt, aunts | f Tante, Tanten | 叔母, 叔母さん; uncle, uncles | m Onkel, Onkel | 叔父, 叔父さん
        grandmother, grandmothers | f Großmutter, Großmütter | 祖母, おばあさん
        grandfather, grandfathers | m Großvater, Großväter | 祖父, おじいさん
        daughter, daughters | f Tochter, Töchter | 娘, 娘さん; son, sons | m Sohn, Söhne | 息子, 息子さん
        parents | p Eltern | 両親, ご両親; friends | p Freunde | 友達, 友達""",
    "time": """
        day, days | m Tag, Tage | 日, 日; week, weeks | f Woche, Wochen | 週間, 週間
        month, months | m Monat, Monate | か月, か月; year, years | n Jahr, Jahre | 年, 年""",
}
NOUNS = {kind: _nouns(kind, table) for kind, table in _NOUN_TABLES.items()}
COUNTED = ("goods", "read", "food")  # with articles, possessives and numbers; the others only with "the"

ADJECTIVES = {
    "goods": _phrases("""
        new | neu | 新しい; old | alt | 古い; red | rot | 赤い; blue | blau | 青い; green | grün | 緑の; big | groß | 大きい
        small | klein | 小さい; expensive | teur | 高い; cheap | billig | 安い; beautiful | schön | きれいな
        black | schwarz | 黒い; white | weiß | 白い; heavy | schwer | 重い"""),
    "read": _phrases("""
        new | neu | 新しい; long | lang | 長い; short | kurz | 短い; interesting | interessant | 面白い
        important | wichtig | 大切な; boring | langweilig | 退屈な"""),
    "food": _phrases("big | groß | 大きい; small | klein | 小さい; fresh | frisch | 新鮮な; good | gut | 美味しい"),
    "person": _phrases("""
        young | jung | 若い; friendly | freundlich | 親切な; famous | berühmt | 有名な; new | neu | 新しい"""),
    "plan": _phrases("new | neu | 新しい; important | wichtig | 大切な; difficult | schwierig | 難しい"),
    "event": _phrases("long | lang | 長い; interesting | interessant | 面白い; important | wichtig | 大切な"),
    "room": _phrases("big | groß | 大きい; small | klein | 小さい; dark | dunkl | 暗い; old | alt | 古い"),
}

NAMES = tuple(
    Noun("name", name, "", agree, name, "", ja, ja, "", agree)
    for name, agree, ja in (
        entry.split()
        for entry in (
            "Anna f アンナ; Peter m ペーター; Maria f マリア; Thomas m トーマス; Julia f ユリア; David m ダビッド; "
            "Martin m マルティン; Sophie f ゾフィー"
        ).split("; ")
    )
)

# ---- places: English in, to | German in, to | Japanese ----

_PLACES = """
park    | in the park, to the park             | im Park, in den Park                 | 公園
garden  | in the garden, to the garden         | im Garten, in den Garten             | 庭
office  | in the office, to the office         | im Büro, ins Büro                    | 事務所
kitchen | in the kitchen, to the kitchen       | in der Küche, in die Küche           | 台所
school  | at school, to school                 | in der Schule, in die Schule         | 学校
market  | at the market, to the market         | auf dem Markt, auf den Markt         | 市場
station | at the station, to the station       | am Bahnhof, zum Bahnhof              | 駅
airport | at the airport, to the airport       | am Flughafen, zum Flughafen          | 空港
library | in the library, to the library       | in der Bibliothek, in die Bibliothek | 図書館
food    | in the restaurant, to the restaurant | im Restaurant, ins Restaurant        | レストラン
hotel   | in the hotel, to the hotel           | im Hotel, ins Hotel                  | ホテル
clinic  | in the hospital, to the hospital     | im Krankenhaus, ins Krankenhaus      | 病院
super   | in the supermarket, to the supermarket | im Supermarkt, in den Supermarkt   | スーパー
campus  | at the university, to the university | an der Universität, zur Universität  | 大学
museum  | in the museum, to the museum         | im Museum, ins Museum                | 博物館
cinema  | in the cinema, to the cinema         | im Kino, ins Kino                    | 映画館
beach   | at the beach, to the beach           | am Strand, an den Strand             | 海岸
home    | at home, home                        | zu Hause, nach Hause                 | 家
berlin  | in Berlin, to Berlin                 | in Berlin, nach Berlin               | ベルリン
hamburg | in Hamburg, to Hamburg               | in Hamburg, nach Hamburg             | ハンブルク
munich  | in Munich, to Munich                 | in München, nach München             | ミュンヘン
vienna  | in Vienna, to Vienna                 | in Wien, nach Wien                   | ウィーン
paris   | in Paris, to Paris                   | in Paris, nach Paris                 | パリ
london  | in London, to London                 | in London, nach London               | ロンドン
italy   | in Italy, to Italy                   | in Italien, nach Italien             | イタリア
"""
PLACES = {
    name: Place(en_in, en_to, de_in, de_to, ja)
    for name, en, de, ja in _rows(_PLACES)
    for (en_in, en_to), (de_in, de_to) in [(en.split(", "), de.split(", "))]
}
_CITIES = "berlin hamburg munich vienna paris london"
PLACE_SETS = {
    name: tuple(keys.split())
    for name, keys in {
        "any": f"{_CITIES} italy park garden office school station airport library hotel clinic museum home",
        "shop": f"{_CITIES} market super",
        "eat": "food hotel kitchen garden home park station",
        "work": f"{_CITIES} office clinic library campus school home",
        "city": f"{_CITIES} italy",
        "arrive": f"{_CITIES} station airport hotel",
        "stop": "station airport hotel campus",
        "out": f"{_CITIES} park station airport market library food cinema beach campus",
        "cook": "kitchen home",
        "inside": "office hotel school home",
        "show": "cinema home",
        "sport": "park school garden beach",
    }.items()
}

# ---- verbs: English | German infinitive, er form, participle, s for "ist" | Japanese | objects | place | more ----
# Objects: kinds of nouns; "+" first: and a person in the dative; "auf/acc" first: preposition and case.
_VERBS = """
buy bought           | kaufen kauft gekauft                   | を 買う         | goods goods food read  | shop   |
sell sold            | verkaufen verkauft verkauft            | を 売る         | goods                  | shop   |
look_for looked_for  | suchen sucht gesucht                   | を 探す         | goods read             | any    | social
find found           | finden findet gefunden                 | を 見つけ・る   | goods read             | any    |
lose lost            | verlieren verliert verloren            | を なくす       | goods read             | any    |
forget forgot        | vergessen vergisst vergessen           | を 忘れ・る     | goods read             | any    | at
repair repaired      | reparieren repariert repariert         | を 修理する     | goods device           | work   | social
order ordered        | bestellen bestellt bestellt            | を 注文する     | goods food             | eat    |
bring brought        | mit-bringen bringt mitgebracht         | を 持ってくる   | +goods food read       |        |
read read            | lesen liest gelesen                    | を 読む         | read                   | any    |
write wrote          | schreiben schreibt geschrieben         | を 書く         | +read                  |        |
eat ate              | essen isst gegessen                    | を 食べ・る     | food                   | eat    | social
drink drank          | trinken trinkt getrunken               | を 飲む         | drink                  | eat    | social
cook cooked          | kochen kocht gekocht                   | を 料理する     | food                   | cook   | social
prepare prepared     | vor-bereiten bereitet vorbereitet      | を 準備する     | meal event             | work   | social
learn learned        | lernen lernt gelernt                   | を 勉強する     | language               | work   | social
play played          | spielen spielt gespielt                | を する         | sport                  | sport  | social
watch watched        | an-sehen sieht angesehen               | を 見・る       | show                   | show   | social
visit visited        | besuchen besucht besucht               | を 訪ね・る     | somebody               | any    | social
meet met             | treffen trifft getroffen               | に 会う         | somebody               | out    |
invite invited       | ein-laden lädt eingeladen              | を 招待する     | somebody               |        |
call called          | an-rufen ruft angerufen                | に 電話する     | somebody               | any    |
pick_up picked_up    | ab-holen holt abgeholt                 | を 出迎え・る   | somebody               | stop   | social
wait_for waited_for  | warten wartet gewartet                 | を 待つ         | auf/acc somebody vehicle | stop | social
talk_to talked_to    | sprechen spricht gesprochen            | と 話す         | mit/dat somebody       | any    |
help helped          | helfen hilft geholfen                  | を 手伝う       | /dat somebody          | work   |
thank thanked        | danken dankt gedankt                   | に 感謝する     | /dat somebody          |        |
take_part_in took_part_in | teil-nehmen nimmt teilgenommen    | に 参加する     | an/dat event           | city   | social
open opened          | auf-machen macht aufgemacht            | を 開け・る     | opening                | inside |
close closed         | zu-machen macht zugemacht              | を 閉め・る     | opening                | inside |
switch_on switched_on | ein-schalten schaltet eingeschaltet   | を つけ・る     | device                 | inside |
switch_off switched_off | aus-schalten schaltet ausgeschaltet | を 消す         | device                 | inside |
tidy_up tidied_up    | auf-räumen räumt aufgeräumt            | を 片付け・る   | room                   |        | social
give gave            | geben gibt gegeben                     | を あげ・る     | +goods read            | any    |
show showed          | zeigen zeigt gezeigt                   | を 見せ・る     | +goods read room       |        |
send sent            | schicken schickt geschickt             | を 送る         | +goods read            |        |
explain explained    | erklären erklärt erklärt               | を 説明する     | +plan                  | work   | to
return returned      | zurück-geben gibt zurückgegeben        | を 返す         | +goods read            |        | to
go went              | gehen geht gegangen s                  | - 行く          |                        | to out | social
travel travelled     | reisen reist gereist s                 | - 旅行する      |                        | to city | social
come_back came_back  | zurück-kommen kommt zurückgekommen s   | - 戻る          |                        | to any |
arrive arrived       | an-kommen kommt angekommen s           | - 着く          |                        | arrive | at
work worked          | arbeiten arbeitet gearbeitet           | - 働く          |                        | work   | social
stay stayed          | bleiben bleibt geblieben s             | - いる          |                        | any    | at social
get_up got_up        | auf-stehen steht aufgestanden s        | - 起き・る      |                        |        |
sleep slept          | schlafen schläft geschlafen            | - 寝・る        |                        | inside |
dance danced         | tanzen tanzt getanzt                   | - 踊る          |                        | sport  | social
"""
_EVENTS = """
leave left           | ab-fahren fährt abgefahren s           | - 出発する      |                        |        | vehicle
arrive arrived       | an-kommen kommt angekommen s           | - 到着する      |                        | city   | at vehicle
begin began          | an-fangen fängt angefangen             | - 始まる        |                        | city   | event
end ended            | auf-hören hört aufgehört               | - 終わる        |                        |        | show
open opened          | öffnen öffnet geöffnet                 | - 開く          |                        |        | house
close closed         | schließen schließt geschlossen         | - 閉まる        |                        |        | house
rain rained          | regnen regnet geregnet                 | 雨が 降る       |                        |        | it
snow snowed          | schneien schneit geschneit             | 雪が 降る       |                        |        | it
"""


def _verb(en: str, de: str, ja: str, objects: str, place: str, more: str) -> Verb:
    (base, past), (inf, third, participle, *aux) = (word.replace("_", " ") for word in en.split()), de.split()
    prefix, _, inf = inf.rpartition("-")
    particle, japanese = ja.split()
    flags = more.split()
    dative, prep, case = objects.startswith("+"), "", "acc"
    if "/" in objects:
        (prep, _, case), objects = objects.split()[0].partition("/"), objects.split(maxsplit=1)[1]
    return Verb(
        base, past, prefix, inf, third, participle, "sein" if aux else "haben", japanese, particle.strip("-"),
        objects.lstrip("+"), place, dative, prep, case, "to" in flags, "at" in flags, "social" in flags,
        next((flag for flag in flags if flag == "it" or flag in NOUNS), ""),
    )


VERBS = tuple(_verb(*row) for row in _rows(_VERBS))
EVENTS = tuple(_verb(*row) for row in _rows(_EVENTS))
ONCE = ("lose", "forget", "find", "buy", "sell", "invite", "arrive", "repair")  # nothing that one does every day
UNWANTED = ("lose", "forget", "find")  # nothing that one intends

# Who says, thinks, asks: verb | mood | English, German, Japanese conjunction | form of the Japanese verb before it.
_REPORTS = """
say said          | sagen sagt gesagt               | - 言う         | past | that dass と       | plain
hear heard        | hören hört gehört               | - 聞く         | past | that dass と       | plain
write wrote       | schreiben schreibt geschrieben  | - 書く         | past | that dass と       | plain
notice noticed    | merken merkt gemerkt            | - 気づく       | past | that dass ことに   | attributive
forget forgot     | vergessen vergisst vergessen    | - 忘れ・る     | past | that dass ことを   | attributive
think thought     | denken denkt gedacht            | - 思っている   | pres | that dass と       | plain
hope hoped        | hoffen hofft gehofft            | - 願っている   | pres | that dass ことを   | attributive
ask asked         | fragen fragt gefragt            | - 尋ね・る     | past | whether ob かどうか | whether
"""


@dataclass(frozen=True)
class Report:
    """A verb that brings a clause; form: that of the Japanese verb before the conjunction."""

    verb: Verb
    mood: str
    en: str
    de: str
    ja: str
    form: str


REPORTS = tuple(
    Report(_verb(en, de, ja, "", "", ""), mood, that, dass, to, form)
    for en, de, ja, mood, words, form in _rows(_REPORTS)
    for that, dass, to in [words.split()]
)

# ---- states: "the hotel was full", by kind of subject ----

STATES: dict[str, tuple[tuple[Noun, ...], tuple[Phrase, ...]]] = {
    "somebody": ((), _phrases("""
        ill | krank | 病気の; tired | müde | 疲れている; busy | beschäftigt | 忙しい; happy | glücklich | 幸せな
        hungry | hungrig | 空腹の; angry | wütend | 怒っている""")),
    "it": ((), _phrases("cold | kalt | 寒い; hot | heiß | 暑い; dark | dunkel | 暗い; late | spät | 遅い")),
    "weather": (_nouns("weather", "weather | n Wetter | 天気"),
                _phrases("good | gut | 良い; bad | schlecht | 悪い; beautiful | schön | 素晴らしい")),
    "place": (_nouns("place", "hotel | n Hotel | ホテル; restaurant | n Restaurant | レストラン; cinema | n Kino | 映画館"),
              _phrases("""expensive | teuer | 高い; full | voll | 満員の; closed | geschlossen | 閉まっている
              too small | zu klein | 小さすぎ・る; open | offen | 開いている""")),
    "event": (NOUNS["event"] + NOUNS["show"], _phrases("""interesting | interessant | 面白い; boring | langweilig | 退屈な
              important | wichtig | 大切な; too long | zu lang | 長すぎ・る""")),
    "vehicle": (NOUNS["vehicle"], _phrases("late | verspätet | 遅れている; full | voll | 満員の")),
}

# ---- times. Japanese: bare / what joins a time of day ("-": none is told) / particle ----

_WEEKDAYS = _phrases("""Monday | Montag | 月; Tuesday | Dienstag | 火; Wednesday | Mittwoch | 水
    Thursday | Donnerstag | 木; Friday | Freitag | 金; Saturday | Samstag | 土; Sunday | Sonntag | 日""")
DAYS = {
    "past": _phrases("""yesterday | gestern | 昨日/の/; yesterday morning | gestern Morgen | 昨日の朝//
        yesterday evening | gestern Abend | 昨日の夜/-/; yesterday afternoon | gestern Nachmittag | 昨日の午後/-/
        this morning | heute Morgen | 今朝//; last week | letzte Woche | 先週/-/; last month | letzten Monat | 先月/-/
        last year | letztes Jahr | 去年/-/; last summer | letzten Sommer | 去年の夏/-/
        last winter | letzten Winter | 去年の冬/-/""")
    + tuple(Phrase(f"last {d.en}", f"letzten {d.de}", f"先週の{d.ja}曜日/の/に") for d in _WEEKDAYS),
    "now": _phrases("""every day | jeden Tag | 毎日//; every morning | jeden Morgen | 毎朝//
        every evening | jeden Abend | 毎晩/-/; every week | jede Woche | 毎週/-/
        every weekend | jedes Wochenende | 毎週末/-/""")
    + tuple(Phrase(f"every {d.en}", f"jeden {d.de}", f"毎週{d.ja}曜日/の/に") for d in _WEEKDAYS),
    "future": _phrases("""tomorrow | morgen | 明日/の/; tomorrow morning | morgen früh | 明日の朝//
        tomorrow evening | morgen Abend | 明日の夜/-/; tomorrow afternoon | morgen Nachmittag | 明日の午後/-/
        today | heute | 今日/の/; this evening | heute Abend | 今夜/-/; next week | nächste Woche | 来週/-/
        next month | nächsten Monat | 来月/-/; next year | nächstes Jahr | 来年/-/""")
    + tuple(Phrase(f"next {d.en}", f"nächsten {d.de}", f"来週の{d.ja}曜日/の/に") for d in _WEEKDAYS)
    + tuple(Phrase(f"on {d.en}", f"am {d.de}", f"{d.ja}曜日/の/に") for d in _WEEKDAYS),
}
RAIN_TIMES = {
    "past": _phrases("yesterday | gestern | 昨日; all day | den ganzen Tag | 一日中; all night | die ganze Nacht | 一晩中"),
    "now": _phrases("tomorrow | morgen | 明日; this evening | heute Abend | 今夜; at the weekend | am Wochenende | 週末"),
    "future": _phrases("tomorrow | morgen | 明日; all day tomorrow | morgen den ganzen Tag | 明日一日中"),
}
MONTHS = _phrases("""January | Januar | ; February | Februar | ; March | März | ; April | April | ; May | Mai |
    June | Juni | ; July | Juli | ; August | August | ; September | September | ; October | Oktober |
    November | November | ; December | Dezember |""")
CLOCK_WORDS = {
    0: Phrase("at {en} o'clock", "um {de_hour} Uhr", ""),
    30: Phrase("at half past {en}", "um halb {de_after}", "半"),
    15: Phrase("at a quarter past {en}", "um Viertel nach {de}", "十五分"),
    45: Phrase("at a quarter to {en_after}", "um Viertel vor {de_after}", "四十五分"),
}
