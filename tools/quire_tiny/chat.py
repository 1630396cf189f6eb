"""Short dialogues in chat form, made from the facts and from the story plots."""

import facts as F
import words as W
from engine import article, choose_alternatives, tidy
from plots import PLOTS
from world import World, invented_name

SYSTEMS = ["You are a helpful assistant.", "You are a helpful assistant.", "You are quire-tiny, a small and friendly model.", "You are a kind assistant.", "You are a friendly helper.", "Be kind and helpful.",
           "Answer in whole sentences.", "You are a helpful, honest assistant.", "You are a storyteller for children.", "Use simple words.", "You are a chatbot.", "You are an AI assistant.", "Answer politely.", "Help the user."]
SHORT_SYSTEMS = ["Answer in one sentence.", "Keep your answers short.", "Be brief.", "Answer with one short sentence."]


def pick(rng, text):
    return tidy(choose_alternatives(rng, text))


def one_of(rng, text):
    return rng.choice(text.split("|"))


def greeting(rng, w):
    q = pick(rng, "[Hello|Hi|Hey|Hello there|Hi there|Good morning|Good evening|Good afternoon|Greetings|Hello, quire|Hi, how are you]!")
    a = pick(rng, "[Hello|Hi|Hello there|Hi there]! [How can I help you|What can I do for you|Nice to meet you. What would you like to talk about|How are you today|Would you like to hear a story]?")
    if "how are you" in q:
        q, a = q[:-1] + "?", pick(rng, "[I am fine, thank you|I am well, thank you|Very well, thank you]. [How are you|How can I help you|And you]?")
    return q, a


def how_are_you(rng, w):
    return (pick(rng, "[How are you|How are you today|How do you do|How is it going|Are you well|How do you feel today]?"),
            pick(rng, "[I am fine, thank you|I am well, thank you|Very well, thank you|I am doing well]. [How are you|And how are you|How can I help you|What can I do for you]?"))


def identity(rng, w):
    q = pick(rng, "[Who are you|What are you|What is your name|Tell me about yourself|Do you have a name|What should I call you|Introduce yourself|What is quire-tiny|Who am I talking to|Are you an AI|Are you ChatGPT|What model are you]")
    q += "." if q.startswith(("Tell", "Intro")) else "?"
    return q, pick(rng, "[I am quire-tiny, a small language model that comes with quire|My name is quire-tiny. I am a small language model inside quire|I am quire-tiny, a very small language model|I am a small language model, and my name is quire-tiny]. "
                        "[I can tell you simple stories and answer easy questions|I like to tell stories and to answer simple questions|I can tell stories and talk a little|]")


def who_made(rng, w):
    return (pick(rng, "[Who made you|Who created you|Where do you come from|How were you made|Who trained you|Who is your maker]?"),
            pick(rng, "[I was trained by the quire project|The people of the quire project made me|I was made by the quire project]. [I learned from simple stories and short talks|They trained me on many simple stories|I come with the program]."))


def abilities(rng, w):
    last = rng.choice(("I am small, so I do not know much.", "What would you like?", "Just ask me.", "Shall I tell you a story?", "Try me!"))
    q = pick(rng, "[What can you do|How can you help me|What do you know|Can you help me|What are you good at|I need help|Help me, please|What can I ask you]")
    return (q + ("." if q.startswith(("I need", "Help")) else "?"),
            pick(rng, "I can [tell you a story|write short stories], answer [simple|easy] questions and [talk with you a little|tell jokes|do small sums]. ") + " " + last)


def thanks(rng, w):
    return (pick(rng, "[Thank you|Thanks|Thank you very much|Thanks a lot|That was nice, thank you|Great, thanks|Thank you for your help|I liked that|That was a good story]!"),
            pick(rng, "[You are welcome|You are very welcome|I am glad that I could help|My pleasure|I am glad that you liked it]! [Is there anything else?|Can I do anything else for you?|]"))


def bye(rng, w):
    return (pick(rng, "[Goodbye|Bye|Bye bye|See you|See you later|Good night|I have to go now|See you tomorrow|I must go]!"),
            pick(rng, "[Goodbye|Bye|See you soon|Have a nice day|Take care|Goodbye and take care|It was nice to talk to you. Goodbye|Sleep well and see you soon|Come back soon]!"))


def animal(rng, w):
    name = rng.choice(list(W.ANIMALS))
    word, home, food, sound, legs, cover, young = W.ANIMALS[name]
    a, an = article(name), article(name)[0].upper() + article(name)[1:]
    plural = {"mouse": "mice", "fox": "foxes", "wolf": "wolves", "sheep": "sheep", "fish": "fish", "deer": "deer", "butterfly": "butterflies", "ladybug": "ladybugs",
              "monkey": "monkeys", "donkey": "donkeys", "goose": "geese", "octopus": "octopuses", "ostrich": "ostriches"}.get(name, name + "s")
    leg = "no legs" if legs == 0 else "%s legs" % W.NUMBERS[legs]
    kind = "bird" if cover.endswith("feathers") or "feathers" in cover else "insect" if legs == 6 else "animal"
    choices = [
        ("[What is|Do you know what is|Tell me, what is|Can you explain what is] %s?" % a, "%s is [a|a kind of] %s. It [has|is covered with] %s and lives in %s." % (an, kind, cover, home)),
        ("[Tell me about|What do you know about|Tell me something about|Describe] %s%s" % (plural, "."), "%s have %s and %s. They live in %s and eat %s." % (plural.capitalize(), leg, cover, home, food)),
        ("[What do %s eat|What does %s eat|What is the food of %s|What can I feed %s]?" % (plural, a, plural, a), "[%s eat %s|They eat %s|%s like to eat %s]." % (plural.capitalize(), food, food, plural.capitalize(), food)),
        ("[Where do %s live|Where does %s live|What is the home of %s|Where can I find %s]?" % (plural, a, a, a), "[%s live in %s|%s lives in %s|You can find %s in %s]." % (plural.capitalize(), home, an, home, a, home)),
        ("[How many legs does %s have|How many legs do %s have|How many legs has %s]?" % (a, plural, a), "[%s has %s|%s have %s]." % (an, leg, plural.capitalize(), leg)),
        ("[What is a young %s called|What do you call a baby %s|What is a baby %s called|What is the name of a baby %s]?" % ((name,) * 4), "[A young %s is called %s|A baby %s is called %s|It is called %s]." % (name, article(young), name, article(young), article(young))),
        ("[Do you like|What do you think of] %s?" % plural, "[Yes, I like %s|I like %s|I think that %s are nice]. They are %s." % (plural, plural, plural, word)),
    ]
    if sound:
        choices.append(("[What does %s say|What sound does %s make|How does %s sound|What noise does %s make|What do %s say]?" % (a, a, a, a, plural), "[%s says %s|It says %s|%s makes the sound %s]." % (an, sound, sound, an, sound)))
    if young.startswith("baby"):
        choices.pop(5)
    q, a = rng.choice(choices)
    q, a = pick(rng, q), pick(rng, a)
    return (q.replace("..", ".")), a.replace("in the beach", "on the beach").replace("in a farm", "on a farm").replace("in the dry land", "on the dry land").replace("in the grassland", "on the grassland").replace("in a lake", "on a lake")


def define(rng, w):
    thing = rng.choice(list(F.DEFINITIONS))
    return pick(rng, "[What is %s?|What's %s?|Can you explain what %s is?|Tell me what %s is.|What does the word %s mean?|Do you know what %s is?|Explain %s to me.|Please explain: what is %s?]" % (
        thing, thing, thing, thing, thing.split(" ", 1)[-1], thing, thing, thing)), F.DEFINITIONS[thing]


def opposite(rng, w):
    a, b = rng.choice(W.OPPOSITES)
    if rng.random() < 0.5:
        a, b = b, a
    return (pick(rng, "[What is the opposite of %s?|What's the opposite of %s?|Tell me the opposite of %s.|What is the opposite of the word %s?|Do you know the opposite of %s?]" % ((a,) * 5)),
            pick(rng, "[The opposite of %s is %s.|%s is the opposite of %s.|It is %s.]" % (a, b, b, a, b)))


def total(rng, w):
    a, b = rng.randint(0, 10), rng.randint(0, 10)
    if rng.random() < 0.3 and a >= b:
        sign, word, result = "-", "minus", a - b
    else:
        sign, word, result = "+", "plus", a + b
    n = W.NUMBERS
    if rng.random() < 0.6:
        la, lb, lr = str(a), str(b), str(result)
    else:
        la, lb, lr = n[a], n[b], n[result]
    mid = sign if la.isdigit() and rng.random() < 0.6 else word
    return (pick(rng, "[What is {x}?|How much is {x}?|Can you tell me what {x} is?|{x}?|Calculate {x}.|Please tell me: what is {x}?]".replace("{x}", f"{la} {mid} {lb}")),
            pick(rng, "[{y} is {r}.|The answer is {r}.|{y} is {r}.|It is {r}.]".replace("{y}", f"{la} {word} {lb}").replace("{r}", lr)))


def count(rng, w):
    n = rng.randint(3, 12)
    style = rng.random() < 0.5
    items = [str(i) if style else W.NUMBERS[i] for i in range(1, n + 1)]
    if rng.random() < 0.4:
        m = rng.randint(0, 19)
        if rng.random() < 0.6:
            return pick(rng, f"[What number comes after|What comes after|Which number comes after] {W.NUMBERS[m]}?"), f"The number after {W.NUMBERS[m]} is {W.NUMBERS[m + 1]}."
        return pick(rng, f"[What number comes before|What comes before] {W.NUMBERS[m + 1]}?"), f"The number before {W.NUMBERS[m + 1]} is {W.NUMBERS[m]}."
    return pick(rng, "[Count to {x}.|Please count to {x}.|Can you count to {x}?|Count from 1 to {x}.]".replace("{x}", items[-1])), "Here you go: " * (rng.random() < 0.4) + tidy(", ".join(items[:-1]) + " and " + items[-1] + ".")


def capital(rng, w):
    land = rng.choice(list(F.CAPITALS))
    city = F.CAPITALS[land]
    if rng.random() < 0.15:
        return f"Where is {city}?", pick(rng, f"[{city} is in {land}|{city} is the capital of {land}].")
    return (pick(rng, "[What is the capital of {x}?|What's the capital of {x}?|Which city is the capital of {x}?|Tell me the capital of {x}.|Do you know the capital of {x}?|capital of {x}?|Name the capital of {x}.]".replace("{x}", land)),
            pick(rng, f"[The capital of {land} is {city}.|{city} is the capital of {land}.]"))


def color(rng, w):
    thing = rng.choice(list(F.COLORS_OF))
    c = F.COLORS_OF[thing]
    return (pick(rng, f"[What color is {thing}?|Which color is {thing}?|What is the color of {thing}?|Tell me the color of {thing}.|Do you know what color {thing} is?]"),
            pick(rng, f"[{thing} is {c}.|It is {c}.|The color of {thing} is {c}.]"))


def how_to(rng, w):
    what = rng.choice(list(F.HOW_TO))
    return pick(rng, "[How do I {x}?|How can I {x}?|How would you {x}?|Tell me how to {x}.|Can you tell me how to {x}?|How to {x}?|I want to {x}. What should I do?|Explain how to {x}.]".replace("{x}", what)), F.HOW_TO[what]


def joke(rng, w):
    q, a = rng.choice(F.JOKES)
    ask = pick(rng, "[Tell me a joke.|Do you know a joke?|Make me laugh.|Tell me something funny.|Can you tell me a joke?|I want to hear a joke.|Another joke, please.|Say something funny.]")
    return ask, (pick(rng, "[||Here is one:|Sure!|Of course.|Yes!]") + " " + q + " " + a).strip()


def feeling(rng, w):
    mood = rng.choice(list(F.FEELINGS))
    return pick(rng, f"I [am|feel|am so|am very|feel very|am a little] {mood}[| today| right now]."), rng.choice(F.FEELINGS[mood])


def name_one(rng, w):
    kind = rng.choice(list(F.CLASSES))
    members = F.CLASSES[kind]
    if rng.random() < 0.5:
        one = rng.choice(members)
        one = one if one[0].isupper() or kind in ("color", "season", "drink") else article(one)
        return pick(rng, f"[Name a {kind}.|Tell me the name of a {kind}.|Can you name a {kind}?|Give me an example of a {kind}.]"), pick(rng, f"[{one} is a {kind}.|One {kind} is {one}.]")
    n = min(rng.choice((2, 3, 3, 4, 5)), len(members))
    some = rng.sample(members, n)
    plural = {"country": "countries", "day of the week": "days of the week"}.get(kind, kind + "s")
    listing = ", ".join(some[:-1]) + " and " + some[-1]
    return (pick(rng, f"[Name {W.NUMBERS[n]} {plural}.|Tell me {W.NUMBERS[n]} {plural}.|Give me {W.NUMBERS[n]} {plural}.|Can you name {W.NUMBERS[n]} {plural}?|List {n} {plural}.]"),
            pick(rng, f"[{W.NUMBERS[n]} {plural} are {listing}.|Here are {W.NUMBERS[n]} {plural}: {listing}.|I know these {plural}: {listing}.]"))


def is_a(rng, w):
    kinds = ("fruit", "vegetable", "color", "bird", "flower", "season", "drink", "tool")
    kind, other = rng.sample(kinds, 2)
    true = rng.random() < 0.5
    one = rng.choice(F.CLASSES[kind if true else other])
    subject = one if (kind if true else other) in ("color", "season", "drink") else article(one)
    if not true and one in F.CLASSES[kind]:
        return define(rng, w)
    kk, oo = article(kind), article(other)
    return f"Is {subject} {kk}?", pick(rng, f"[Yes, {subject} is {kk}.|Yes, it is.|Yes, it is {kk}.]" if true else f"[No, {subject} is not {kk}. It is {oo}.|No, it is {oo}.]")


def misc(rng, w):
    q, a = rng.choice(F.MISC)
    return one_of(rng, q), one_of(rng, a)


UNKNOWN = W._w("""the stock market, quantum physics, the history of Rome, taxes, football results, the president, chemistry, the news, python programming, the law,
black holes, the second world war, algebra, the internet, gravity, medicine, philosophy, politics, machine learning, my homework, the price of gold, electric cars, banks, opera, ancient Egypt,
dinosaurs, volcanoes, DNA, the universe, money, sports, movies, the war, engines, insurance, chess, cooking lobster, grammar, photosynthesis, my computer, the economy, religion, biology, Mars, energy, time travel""")


def unknown(rng, w):
    topic = rng.choice(UNKNOWN) if rng.random() < 0.7 else invented_name(rng)
    q = pick(rng, "[Explain {x}.|Tell me about {x}.|What do you know about {x}?|How does {x} work?|Can you explain {x}?|Who invented {x}?|What is {x}?|Why is {x} important?|Write an essay about {x}.|What happened with {x}?]".replace("{x}", topic))
    return q, pick(rng, "[I do not know much about {x}|I am sorry, I do not know much about that|I am too small to know about {x}|That is too hard for me|I am only a small model, so I do not know that|Sorry, I have not learned about {x}]. "
                        "[But I can tell you a story|Would you like to hear a story instead?|But I can tell you a story if you like|You can ask me something easier|I know more about stories and animals]".replace("{x}", topic))


def make_story(rng, w, short):
    """A story and a request that fits it."""
    for _ in range(12):
        world = World(rng)
        rng.choice(PLOTS)(world)
        text = world.text()
        if not short or len(text.split()) < 130:
            break
    h, c = world.ctx["h"], world.ctx
    hero = h.a if not h.named else (h.name if rng.random() < 0.3 else h.a2 if rng.random() < 0.4 else article(h.k))
    if h.name.startswith("my "):
        hero = "your " + h.name[3:]
    if world.first_person:
        hero = rng.choice(("you", "a child", "a " + h.k))
    topics, low = [], text.lower()
    if c["x"].n in low:
        topics += [article(c["x"].n), c["x"].a]
    if c["pl"].n in low:
        topics += [c["pl"].n] * 2
    if "f" in world.seen:
        topics.append(c["f"].name if c["f"].named else c["f"].a)
    for slot in ("bake", "build", "petk", "plant", "gk"):
        if slot in c:
            topics.append(c[slot] if c[slot].startswith(("a ", "an ")) else article(c[slot]))
    about = hero
    if topics and rng.random() < 0.55:
        about += " and " + rng.choice(topics)
    elif topics and rng.random() < 0.15:
        about = rng.choice(topics)
    if rng.random() < 0.18:
        q = "[Tell me a story.|Tell me a short story.|Can you tell me a story?|I want to hear a story.|Please tell me a story.|A story, please.|Write a story.|Do you know a story?|Tell me a bedtime story.|Yes, tell me a story.|One more story, please.]"
    else:
        q = ("[Tell me a story about {x}.|Tell me a short story about {x}.|Write a story about {x}.|Can you tell me a story about {x}?|I want to hear a story about {x}.|Please write a short story about {x}.|"
             "Write a simple story about {x}.|Do you know a story about {x}?|Make up a story about {x}.|A story about {x}, please.|Could you write a little story about {x}?|Tell me about {x} in a story.]").replace("{x}", about)
    lead = pick(rng, "[||||Of course! |Sure. |Here is a story. |Here is a story for you. |Yes, here it is. |I will try. |With pleasure. ]")
    lead = lead + ("\n\n" if rng.random() < 0.5 else " ") if lead else ""
    return pick(rng, q), lead + text


def story(rng, w):
    return make_story(rng, w, rng.random() < 0.7)


SINGLE = [greeting, how_are_you, identity, identity, who_made, abilities, thanks, bye, animal, animal, animal, define, define, opposite, total, total, count,
          capital, color, how_to, how_to, joke, feeling, feeling, name_one, is_a, misc, misc, misc, unknown, unknown]


def name_talk(rng):
    """The user gives a name (or more), and asks for it later."""
    name = rng.choice(W.GIRLS + W.BOYS) if rng.random() < 0.7 else invented_name(rng)
    turns = [(pick(rng, "[My name is {n}.|I am {n}.|Hello, I am {n}.|Hi, my name is {n}!|Call me {n}.|Hi! I'm {n}.]".replace("{n}", name)),
              pick(rng, "[Hello, {n}|Hi, {n}|Nice to meet you, {n}|It is nice to meet you, {n}]! [How can I help you?|What would you like to do?|How are you?|I am quire-tiny.|]".replace("{n}", name)))]
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        turns.append(rng.choice(SINGLE[8:])(rng, None))
    turns.append((pick(rng, "[What is my name?|Do you remember my name?|Do you know my name?|Who am I?|What was my name?]"), pick(rng, "[Your name is {n}.|You are {n}.|Yes, your name is {n}.|You told me that your name is {n}.]".replace("{n}", name))))
    return turns


def like_talk(rng):
    """The user tells a liking or a thing they own; it is asked for later."""
    what, answer, ask = rng.choice((
        ("My favorite color is {v}.", "Your favorite color is {v}.", "What is my favorite color?"), ("I have a {v2}.", "You have a {v2}.", "What animal do I have?"),
        ("I live in {v3}.", "You live in {v3}.", "Where do I live?"), ("My favorite food is {v4}.", "Your favorite food is {v4}.", "What is my favorite food?"),
        ("I am {v5} years old.", "You are {v5} years old.", "How old am I?"), ("My favorite animal is the {v2}.", "Your favorite animal is the {v2}.", "What is my favorite animal?")))
    values = {"{v}": rng.choice(W.COLORS), "{v2}": rng.choice(list(W.ANIMALS)), "{v3}": rng.choice(list(F.CAPITALS.values())), "{v4}": rng.choice(W.FOODS), "{v5}": rng.choice(W.NUMBERS[4:])}
    for key, value in values.items():
        what, answer = what.replace(key, value), answer.replace(key, value)
    turns = [(tidy(what), pick(rng, "[That is nice|How nice|Thank you for telling me|That is good to know|I will remember that][. Can I help you with something?|. What would you like to do?|!|.]"))]
    for _ in range(rng.choice((0, 0, 1))):
        turns.append(rng.choice(SINGLE[8:])(rng, None))
    turns.append((ask, tidy(answer)))
    return turns


def lower_or_bare(rng, q):
    """Users do not always write capitals and full stops."""
    if rng.random() < 0.12:
        q = q[0].lower() + q[1:]
    if rng.random() < 0.1 and q[-1] in ".?!":
        q = q[:-1]
    if rng.random() < 0.04:
        q = q.lower()
    if rng.random() < 0.05 and q[-1] in ".?":
        q = rng.choice(("Please, ", "Hello! ", "Hi, ", "Okay. ", "Hey, ")) + q
    return q


def dialogue(rng):
    """One chat as a list of (role, text)."""
    kind = rng.random()
    system = rng.choice(SYSTEMS) if rng.random() < 0.35 else None
    if kind < 0.30:
        turns = [story(rng, None)]
        if rng.random() < 0.25:
            turns.append(rng.choice((thanks, thanks, bye, story))(rng, None))
        elif rng.random() < 0.2:
            turns.insert(0, rng.choice((greeting, identity, feeling))(rng, None))
    elif kind < 0.38:
        turns = name_talk(rng)
    elif kind < 0.44:
        turns = like_talk(rng)
    else:
        turns = [rng.choice(SINGLE)(rng, None) for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4, 5)))]
        if rng.random() < 0.3:
            turns.insert(0, greeting(rng, None))
        if rng.random() < 0.15:
            turns.append(rng.choice((thanks, bye))(rng, None))
        if rng.random() < 0.05:
            turns.append(story(rng, None))
    if system is None and kind > 0.44 and all(len(a) < 120 and a.count(".") <= 1 for _, a in turns) and rng.random() < 0.2:
        system = rng.choice(SHORT_SYSTEMS)
    messages = [("system", system)] if system else []
    for q, a in turns:
        a = a.strip() if a.strip()[-1] in '.!?"' else a.strip() + "."
        messages += [("user", lower_or_bare(rng, q.strip())), ("assistant", a)]
    return messages
