"""The small world of one story: who is in it, where it happens, and the text told so far."""

import re

from engine import Elder, Place, Thing, Who, article, expand, tidy
import words as W

# Openings. 'timed' ones already say when the story happens.
OPEN_INTRO = [
    "Once upon a time, there was {intro}. {traitline}",
    "Once upon a time, {home}, there lived {intro}. {traitline}",
    "Once there was {intro} who lived {home}. {traitline}",
    "There was once {intro} who [was very {trait}|lived {home}]. {likes}",
    "{home} lived {intro}. {traitline}",
    "{home}, there was {intro}. {traitline} {likes}",
    "Long ago, {home}, there lived {intro}. {traitline}",
    "A long time ago, there was {intro}. {likes}",
    "In a land far, far away lived {intro}. {traitline}",
    "This is the story of {intro}. {traitline}",
    "Let me tell you about {intro} who lived {home}. {likes}",
    "Once upon a time, {intro} lived {home}. {traitline} {likes}",
    "There lived {intro} {home}. {likes}",
    "[Many years ago|Many, many years ago], {intro} lived {home}. {traitline}",
    "Do you know the story of {intro}? [Then listen|It goes like this]. {traitline}",
]
OPEN_NAME = [
    "{first} was a [very |] {trait} {k}. {likes}",
    "{first} lived {home}. {traitline}",
    "{first} loved {love}. {traitline}",
    "{first} was a {k} who loved {love}.",
    "{first} was {trait} and {trait2}. {likes}",
    "{first} lived {home} with {h.p} [family|mother|grandmother|best friend]. {likes}",
    "{first} was the most {trait} {k} in [town|the village|the whole land]. {likes}",
    "Everyone knew {first}. {traitline} {likes}",
    "{first} woke up early. It was {aweather} morning. [!T]",
    "{first} was bored. There was nothing to do. [!T]",
    "{first} sat by the window and looked at the {sky} sky. [!T]",
    "{first} was on [the way|{h.p} way] home. [!T]",
    "{first} could not [sit still|wait]. Today was going to be a [special|big|great] day. [!T]",
    "{first} was {nage} years old. {likes}",
    "{first} had a {trait} heart. {likes}",
    "{first} liked {love} more than anything [else|in the world].",
]
OPEN_TIME = [
    "One {weather} day, {first} was [at home|outside|{doing}]. [!T]",
    "One {weather} {daypart}, {first} [woke up and smiled|looked out of the window|went outside]. [!T]",
    "It was {aweather} {daypart}. {first} was {doing}. [!T]",
    "It was {aweather} day, and {first} [felt|was] {mood}. [!T]",
    "On {aweather} {daypart}, {first} was {doing}. [!T]",
    "The sun was [shining|up|bright], and the birds were singing. {first} was {mood}. [!S]",
    "Last {weekday}, {first} was {doing}. [!T]",
    "Yesterday, {first} was {doing}. It was {aweather} day. [!T]",
    "Yesterday was {aweather} day. {first} was {doing}. [!T]",
    "Last [summer|winter|spring|week|year], something [special|strange|wonderful|funny] happened to {first}. [!T]",
    "It was [Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday] {daypart}. {first} was {doing}. [!T]",
    "Early in the morning, {first} [heard a bird sing|opened {h.p} eyes|got up]. It was {aweather} day. [!T]",
    "In the year {year}, there was {intro}. {traitline}",
    "Today was a [big|special] day for {first}. [!T]",
    "When {first} was {nage} years old, {h.s} lived {home}. {likes}",
    "Every [morning|day|evening], {first} liked to [take a walk|sing a song|look at the sky|visit a friend]. {traitline}",
    "It all began [on {aweather} day|one {weather} {daypart}]. {first} was {doing}. [!T]",
    "One [day|morning], {first} was {doing}. [!T]",
    "{first} [looked|walked] around. It was {aweather} day. [!T]",
]
OPEN_TALK = [
    '"Good morning{h.vc}!" [said|called] {e}. "[Wake up|It is time to get up]! [It is a new day|The sun is up]." [!T]',
    '"[What can we do|What will we do] today?" {h} asked {e}. "[Let us wait and see|We will see|You will find something]," said {e}. [!T]',
    '"I am bored," {h} [said|told {e}]. "Then go outside," said {e}. "[Something good|A surprise|A nice day] is waiting for you." [!T]',
    '"Look at the [sky|sun]!" {h} [said|cried]. It was {aweather} day. [!T]',
    '"[I have an idea|Today will be a good day]," {h} said to {e}. {e} smiled. [!T]',
]
OPEN_RAIN = [
    "It was raining. {first} sat at the window and watched the drops. [!T]",
    "The rain fell all {daypart}. {first} stayed inside and was {mood2}. [!T]",
    "It rained and rained. {first} [wanted to go out|waited for the sun]. At last, the rain stopped. [!T]",
    "The sky was gray, and the wind was cold. {first} was {doing}. [!T]",
]
OPEN_SNOW = [
    "It was snowing. {first} looked out of the window and [smiled|clapped]. [!T]",
    "It was winter, and the snow was [deep|white and soft]. {first} was {mood}. [!T]",
    "Snow fell [all night|in the night]. In the morning, the world was white. {first} was {mood}. [!T]",
]
OPEN_NIGHT = [
    "It was a [dark|quiet|clear|cold] night. {first} [could not sleep|looked at the stars|was in bed]. [!T]",
    "The moon was [high|bright|round]. {first} was [in bed|still awake]. [!T]",
    "One [dark|quiet|cold] night, {first} [woke up|was awake]. [!T]",
    "Late [in the evening|at night], {first} was still awake. [!T]",
]
OPEN_I = [
    "My name is {iname}. {traitline} {likes}",
    "I am {iname}, and I am {nage} years old. {likes}",
    "When I was {nage} years old, I lived {home}. {likes}",
    "I remember {aweather} day long ago. I was {doing}. [!T]",
    "I want to tell you [a story|what happened to me]. {traitline}",
    "Yesterday I was {doing}. [!T]",
    "One {weather} {daypart}, I was {doing}. [!T]",
    "I woke up early. It was {aweather} day. [!T]",
    "[My grandmother|My grandfather|My mother|My father] always says that I am {trait}. {likes}",
    "I live {home}. {likes}",
    "It was {aweather} {daypart}, and I was {mood}. [!T]",
    "I was {doing} when this story began. [!T]",
]
TRAITLINE = [
    "{S} was a {trait} {k}.", "{S} was very {trait}.", "{S} was {trait} and {trait2}.",
    "{S} loved {love}.", "{S} was small, but {h.s} was {trait}.",
    "Everyone said that {h.s} was {trait}.", "{S} had many friends.", "{S} had [one|a] good friend, {f.a2}.",
    "{S} always [smiled|had a smile on {h.p} face].", "{S} liked {love} and {love2}.", "",
]
LIKES = [
    "{S} liked {love}.", "{S} loved {love} and {love2}.", "{S} loved to [eat|have] {food} [in the morning|for lunch|].",
    "{P} favorite color was {color}.", "{S} loved {love} [every day|more than anything].",
    "Most of all, {h.s} loved {love}.", "{S} was always {doing}.", "", "",
]
LOVES = W._w("""to sing, to dance, to read books, to play outside, to draw pictures, to run, to climb trees,
to look at the stars, to tell stories, to swim, to help others, to ask questions, to make things, to eat {food},
to play games, to pick flowers, to walk in the woods, to listen to the birds, to sit in the sun, to count things,
to fly kites, to cook, to paint, to find shells, to watch the clouds, to jump in puddles, to collect stones,
to laugh, to play with friends, to hear stories""")
DOINGS = W._w("""playing in the yard, reading a book, walking along the road, sitting under a tree, singing a song,
looking at the clouds, eating {food}, helping {e}, sitting by the door, picking flowers, drawing a picture,
making breakfast, running in the grass, looking for something to do, counting stones, watching the birds,
cleaning the house, sweeping the floor, resting in the sun, humming a little song, thinking about a trip""")
ELDERS = [("mother", "f", "Mom"), ("father", "m", "Dad"), ("grandmother", "f", "Grandma"),
          ("grandfather", "m", "Grandpa"), ("aunt", "f", "Auntie"), ("uncle", "m", "Uncle"),
          ("mother", "f", "Mama"), ("father", "m", "Papa"), ("big sister", "f", "sister"),
          ("big brother", "m", "brother"), ("teacher", "f", "teacher")]
WISE = [("the old owl", "m", "wise owl"), ("the old turtle", "f", "old turtle"), ("the wise woman", "f", "wise woman"),
        ("the old man", "m", "old man"), ("the old gardener", "m", "good gardener"),
        ("the kind baker", "f", "kind baker"), ("the old bear", "m", "old bear"),
        ("the old goose", "f", "good goose"), ("the gray horse", "m", "gray horse")]
KINDS = ([(k, "child") for k in ("girl", "boy")] * 26 + [(k, "animal") for k in W.ANIMALS]
         + [(k, "animal") for k in W.SMALL_PETS] * 1 + [(k, "fantasy") for k in W.FANTASY]
         + [(k, "machine") for k in W.MACHINES] + [(k, "nature") for k in W.NATURE]
         + [(k, "job") for k in W.JOBS + W.OLD])
FEMALE = set(W._w("fairy, witch, mermaid, princess, queen, moon girl, old woman, young woman, lady, woman, "
                  "grandmother, girl, little girl, nurse, cow, hen, ladybug, doll"))
MALE = set(W._w("wizard, prince, king, knight, young wizard, old man, young man, poor man, rich man, man, boy, "
                "little boy, grandfather, gingerbread man, snowman, fisherman, postman, fireman, policeman, troll, "
                "toy soldier"))
SMALL_ADJ = W._w("little, small, young, tiny, big, old, gray, brown, white, happy, sleepy, funny, kind, clever, brave")

JOB_ADJ = W._w("young, old, kind, clever, brave, poor, busy, happy, funny, quiet")
ODD_DO = W._w("lay in the road, stood by the door, made a strange sound, was gone, began to shine, fell from the sky, "
              "would not work, was broken, smelled of fish, was too big, had a hole in it, was warm, was full of sand, "
              "could talk, had come in the night, was lost, turned around and around, waited in the rain, was upside down")
RELATIVES = [("grandmother", "f", "woman", "Grandma"), ("grandfather", "m", "man", "Grandpa"), ("mother", "f", "woman", "Mom"),
             ("father", "m", "man", "Dad"), ("little brother", "m", "boy", "little one"), ("little sister", "f", "girl", "little one"),
             ("uncle", "m", "man", "Uncle"), ("aunt", "f", "woman", "Auntie"), ("best friend", "f", "girl", "my dear"),
             ("best friend", "m", "boy", "my dear"), ("dog", "m", "dog", "good boy"), ("cat", "f", "cat", "little one"),
             ("neighbor", "m", "man", "my friend"), ("teacher", "f", "woman", "my friend"), ("cousin", "m", "boy", "my friend")]


def make_relative(rng):
    """A hero told of as 'my grandmother'; the teller stays outside the story."""
    noun, gender, kind, call = rng.choice(RELATIVES)
    who = Who("my " + noun, kind, gender)
    who.vc, who.call, who.group, who.a2 = ", " + call, noun, "job", "my " + noun
    who.iam = "nice to meet you"
    return who


def invented_name(rng):
    parts = [rng.choice(W.SYLLABLES_A)] + [rng.choice(W.SYLLABLES_B) for _ in range(rng.choice((1, 1, 2)))]
    return "".join(parts).capitalize()


def pick_name(rng, kind, gender, group):
    if rng.random() < (0.12 if group == "child" else 0.2):
        return invented_name(rng)
    if group == "child" or (group in ("job", "fantasy") and rng.random() < 0.7):
        return rng.choice(W.GIRLS if gender == "f" else W.BOYS)
    return rng.choice(W.PET_NAMES)


def make_who(rng, group=None, kind=None, avoid=()):
    while True:
        if kind is None:
            pool = KINDS if group is None else [pair for pair in KINDS if pair[1] == group]
            chosen, kind_group = rng.choice(pool)
        else:
            chosen = kind
            kind_group = next((g for k, g in KINDS if k == kind), "animal")
        gender = "f" if chosen in FEMALE else "m" if chosen in MALE else rng.choice("fm")
        if kind_group in ("machine", "nature") and rng.random() < 0.5 and chosen not in FEMALE | MALE:
            gender = "n"
        named = kind_group == "child" or rng.random() < 0.5
        pool = JOB_ADJ if kind_group == "job" else SMALL_ADJ
        plain = " " in chosen or chosen.startswith("grand")
        adjective = "" if plain or rng.random() < 0.45 else rng.choice(pool)
        if kind_group == "child":
            adjective = rng.choice(("", "little", "little", "young"))
        who = Who(pick_name(rng, chosen, gender, kind_group), chosen, gender, named, adjective)
        who.group = kind_group
        if who.name not in avoid and (chosen not in avoid or kind is not None):
            break
        if kind is not None and not named:
            adjective = ""
            who = Who(pick_name(rng, chosen, gender, "animal"), chosen, gender, True, adjective)
            who.group = kind_group
            named = True
            break
    who.a2 = who.a + " named " + who.name if named else who.a
    return who


class World:
    def __init__(self, rng, hero_kind=None, person=None):
        self.rng, self.paras, self.timed = rng, [[]], False
        self.first_person = rng.random() < 0.08 if person is None else person == "I"
        if self.first_person:
            hero = Who("I", rng.choice(("girl", "boy")), "I")
            hero.group, hero.a2 = "child", "I"
        elif hero_kind is None and rng.random() < 0.05:
            hero = make_relative(rng)
        else:
            hero = make_who(rng, kind=hero_kind)
            if not hero.named and rng.random() < 0.3:
                hero.first = hero.name
        self.seen, self.episode = set(), 0
        friend_group = rng.choice(("child", "child", "animal")) if hero.group in ("child", "job") else \
            rng.choice(("animal", "animal", "child", None))
        friend = make_who(rng, friend_group, avoid=(hero.name, hero.kind if hero.group != "child" else ""))
        self.ctx = {"h": hero, "f": friend, "e": self._elder(hero)}
        self.weather, self.night = "sunny", False
        self.free_thing("x", W.TOYS + W.TREASURES + W.WEAR)
        self.ctx["pl"] = Place(rng.choice(W.PLACES))
        self._pronouns()

    def _elder(self, hero):
        if hero.group in ("child", "animal") and self.rng.random() < 0.8:
            noun, gender, call = self.rng.choice(ELDERS)
            return Elder(hero.p + " " + noun, gender, call)
        return Elder(*self.rng.choice(WISE))

    def _pronouns(self):
        hero, friend, ctx = self.ctx["h"], self.ctx["f"], self.ctx
        both = friend.name + " and I" if self.first_person else f"{hero.name} and {friend.name}"
        us = ("we", "us", "our") if self.first_person else ("they", "them", "their")
        ctx.update(hf=both, they=us[0], them=us[1], their=us[2], S=hero.s, P=hero.p,
                   k=hero.k, first=hero.first, trait=self.pick(W.TRAITS), trait2=self.pick(W.TRAITS))
        ctx["intro"] = hero.a2

    def pick(self, pool):
        return self.rng.choice(pool)

    def put(self, **values):
        self.ctx.update(values)

    def free_thing(self, slot, nouns):
        adjective = self.rng.choice((W.COLORS, W.COLORS, W.MATERIAL, [""]))
        self.ctx[slot] = Thing(self.pick(nouns), self.pick(adjective))
        return self.ctx[slot]

    def place(self, slot, names):
        rows = [row for row in W.PLACES if row[0].removeprefix("the ") in names]
        self.ctx[slot] = Place(self.pick(rows))
        return self.ctx[slot]

    def extra(self, slot, group=None, kind=None):
        avoid = tuple(v.name for v in self.ctx.values() if isinstance(v, Who)) + (self.ctx["h"].kind,)
        self.ctx[slot] = make_who(self.rng, group, kind, avoid)
        return self.ctx[slot]

    def _details(self):
        rng, hero = self.rng, self.ctx["h"]
        homes = W.WILD_HOMES if hero.group in ("animal", "nature") else W.HOMES
        food, elder = self.pick(W.FOODS), str(self.ctx["e"])
        love, love2 = rng.sample(LOVES, 2)
        weather = self.pick(W.WEATHER_OPEN[self.weather])
        self.put(home=self.pick(homes), love=love.replace("{food}", food), love2=love2.replace("{food}", food),
                 food=food, color=self.pick(W.COLORS), weather=weather, aweather="a " + weather,
                 daypart=self.pick(("morning", "afternoon", "morning", "evening")),
                 doing=self.pick(DOINGS).replace("{food}", food).replace("{e}", elder),
                 mood=self.pick(("happy", "in a good mood", "full of joy", "curious", "excited")),
                 mood2=self.pick(("bored", "a little sad", "very quiet", "waiting")),
                 nage=self.pick(W.NUMBERS[4:11]), year=self.pick(("3000", "2100", "2050", "2500", "1900", "1850", "2300")),
                 weekday=self.pick(W._w("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")),
                 sky="blue" if self.weather == "sunny" else "gray",
                 iname=self.pick(W.GIRLS if hero.kind == "girl" else W.BOYS))

    def open(self, weather="sunny", night=False):
        self.weather, self.night = weather, night
        self.episode += 1
        if self.episode > 1:
            self.timed = False
            self.para()
            return
        self._details()
        self.put(traitline=self.pick(TRAITLINE), likes=self.pick(LIKES))
        if self.ctx["f"].named is False or self.rng.random() < 0.7:
            if "f.a2" in self.ctx["traitline"]:
                self.ctx["traitline"] = ""
        for slot in ("traitline", "likes"):
            self.ctx[slot] = expand(self.rng, self.ctx[slot], self.ctx) if self.ctx[slot] else ""
        pools = [OPEN_INTRO, OPEN_INTRO, OPEN_NAME, OPEN_NAME, OPEN_TIME]
        if self.first_person:
            pools = [OPEN_I]
        elif night:
            pools = [OPEN_INTRO, OPEN_NAME[:8], OPEN_NIGHT, OPEN_NIGHT]
        elif weather == "rainy":
            pools += [OPEN_RAIN, OPEN_RAIN]
        elif weather == "snowy":
            pools += [OPEN_SNOW, OPEN_SNOW]
        if not night and not self.first_person and self.rng.random() < 0.15:
            pools = [OPEN_TALK]
        if not night and not self.first_person and self.rng.random() < 0.06:
            pools = [self._odd_openings()]
        text = self.pick(self.pick(pools))
        if weather != "sunny":
            text = text.replace("[!S]", "").replace("The sun was [shining|up|bright], and the birds were singing.", "")
        if "[!" in text:
            self.timed = True
            text = text.replace("[!T]", "").replace("[!S]", "")
        self.paras[-1].append(expand(self.rng, text, self.ctx))
        if self.rng.random() < 0.75:
            self.para()

    def _odd_openings(self):
        """Openings about some unexpected thing, so that none is too strange to go on from."""
        noun = self.pick((self.pick(W.TOYS + W.TREASURES + W.WEAR), self.pick(W.MACHINES + W.NATURE), self.pick(W.JOBS)))
        if noun in W.JOBS:
            odd = "The %s [was late|had no time|looked up|closed the door|had bad news|told everyone a secret]." % noun
        else:
            odd = "%s %s." % (self.pick(("The " + noun, article(self.pick(W.COLORS) + " " + noun))), self.pick(ODD_DO))
        return [odd + " [No one knew why.|It was very strange.|Everyone wondered.|] {first} [saw it and smiled|wondered about it|"
                "laughed|thought about it all morning|told {e} about it]. [!T]"]

    def when(self):
        """How the first event is dated; says nothing new when the opening did."""
        if self.timed:
            return self.pick(("", "", "Then", "Soon", "After a while,"))
        self.timed = True
        if self.episode > 1:
            return self.pick(("The next day,", "A few days later,", "Some time later,", "A week later,", "Another day,",
                              "One day after that,")) if not self.night else self.pick(("One night,", "A few nights later,", "That night,"))
        if self.night:
            return self.pick(("One night,", "One dark night,", "One evening,", "That night,"))
        weather = self.pick(W.WEATHER_OPEN[self.weather])
        return self.pick(("One day,", "One day,", "One morning,", "One afternoon,", "One %s day," % weather,
                          "One %s morning," % weather, "On a %s day," % weather, "That day,", "One %s afternoon," % weather))

    def __call__(self, *templates):
        """Tell one of the templates."""
        text = self.pick(templates)
        if "{when}" in text:
            text = text.replace("{when}", self.when())
        self.put(sad=self.pick(W.SAD), happy=self.pick(W.HAPPY), scared=self.pick(W.SCARED))
        text = self._introduce(expand(self.rng, text, self.ctx))
        if text:
            self.paras[-1].append(text)
        return self

    def known(self, slot):
        return slot in self.seen

    def _introduce(self, text):
        """At the first mention 'the fox' becomes 'a fox', and 'Pip' may become 'Pip the fox'."""
        for slot in "fge":
            who = self.ctx.get(slot)
            if who is None or slot in self.seen:
                continue
            if not who.named and slot != "e" and re.search(r"\b" + who.first, text, re.I):
                self.seen.add(slot)
                who.first = who.name
                continue
            if who.name.lower() not in text.lower():
                continue
            self.seen.add(slot)
            if slot == "e":
                continue
            if not who.named:
                text = re.sub(r"\b[Tt]he " + who.name[4:], lambda m: "A" + who.a[1:] if m.group(0)[0] == "T" else who.a, text, count=1)
            elif who.group != "child" and self.rng.random() < 0.6:
                style = self.rng.choice((who.name + " the " + who.k, who.name + " the " + who.k, who.a2))
                text = re.sub(r"(?<![,!] )\b" + who.name + r"\b(?!')", style, text, count=1)
                text = tidy(text)
            who.first = who.name
        return text

    def maybe(self, chance, *templates):
        if self.rng.random() < chance:
            self(*templates)

    def para(self):
        if self.paras[-1]:
            self.paras.append([])

    def text(self):
        return "\n\n".join(" ".join(p) for p in self.paras if p)
